"""Middle steps: study, search, train, quantise. Each leaves its artefact, so a killed run goes on where it was."""

from __future__ import annotations

from dataclasses import replace

from flows.errors import BudgetError
from flows.quant.qat import QAT_SETTINGS, qat
from flows.run_folder import Json
from flows.search.adapt import adapt_supernet
from flows.search.nsga import Candidate, SearchResult, SearchSettings, search
from flows.search.sensitivity import affected_stages, stage_responses
from flows.search.table import OperatorTable, measure_table
from flows.search.widen import contains, widenings
from flows.steps.context import RunContext
from flows.steps.hard import TrainingPairs
from flows.steps.parent import parent_network
from flows.tasks.training import Budget
from flows.tasks.vsr.architecture import Architecture
from flows.tasks.vsr.history import FRAMES
from flows.tasks.vsr.inherit import inherit
from flows.tasks.vsr.metrics import evaluate
from flows.tasks.vsr.net import VsrNet
from flows.tasks.vsr.supernet import load_supernet, save_supernet
from flows.tasks.vsr.train import TrainSettings, finetune
from flows.tasks.vsr.weights import load_net, save_net

ADAPT_SHARE, FINETUNE_SHARE, QAT_SHARE = 0.15, 0.70, 0.15
MINIMUM_MINUTES = 0.2
DDR_LIMIT = 1.08
ADAPT = TrainSettings(rate=1e-3)
FINETUNE = TrainSettings(batch=16, rate=1.5e-3, hard_share=1 / 4, keep=0.0)
"""Enough hard patches that stand-ins milder than the field still teach it; healthy ones remain the many."""


def study(run: RunContext, pairs: TrainingPairs) -> Json:
    """Which stages the hard conditions affect, and why."""
    net = parent_network(run)
    responses = stage_responses(net, pairs.normal, pairs.hard, seed=run.settings.seed)
    affected = affected_stages(responses) or tuple(range(len(net.architecture.stages)))
    return {"affected": list(affected), "stages": [vars(response) for response in responses]}


def measure(run: RunContext) -> Json:
    """Operator latencies on every target, from micro-programs on the emulated device."""
    supernet = load_supernet(run.parent.supernet)
    table = measure_table(
        supernet.space, (run.parent.architecture.trunk,), run.settings.targets, run.settings.profiles, run.lab_command,
        progress=lambda share: run.progress("measuring operators", share),
    )  # fmt: skip
    run.folder.write("operator_table.json", table.to_json().encode())
    return {"rows": len(table.rows), "facts": table.facts}


def search_architecture(run: RunContext, pairs: TrainingPairs, studied: Json) -> Json:
    """Adapt the supernet's affected stages, then search them under the latency limit."""
    supernet = load_supernet(run.parent.supernet)
    inherited = run.parent.architecture
    affected = tuple(int(index) for index in studied["affected"])
    adapt_supernet(
        supernet, inherited, affected, pairs.normal, pairs.hard, _budget(run, ADAPT_SHARE),
        replace(ADAPT, seed=run.settings.seed),
        progress=lambda share, what: run.progress(f"adapting the supernet: {what}", share),
    )  # fmt: skip
    save_supernet(supernet, run.folder.path / "supernet.npz")
    table = OperatorTable.from_json(run.folder.read("operator_table.json").decode())
    supernet.eval()

    production = _validated(parent_network(run), pairs)

    def quality(architecture: Architecture) -> float:
        slice_of_it = _validated(supernet.extract(architecture), pairs)
        return max(slice_of_it, production) if contains(architecture, inherited) else slice_of_it

    def latency(architecture: Architecture) -> float:
        return cost_ratio(table, architecture, inherited)

    settings = SearchSettings(limit=run.settings.latency_limit, seed=run.settings.seed)
    wider = widenings(supernet.space, inherited, affected, latency, settings.limit)
    result = search(
        supernet.space, inherited, affected, quality, latency, settings,
        progress=lambda share: run.progress("searching", share), also=wider,
    )  # fmt: skip
    return _search_json(result, inherited)


def cost_ratio(table: OperatorTable, architecture: Architecture, production: Architecture) -> float:
    """Latency relative to production; a network that moves too much over DDR counts by that instead."""
    ddr = table.worst_ddr_ratio(architecture, production)
    latency = table.worst_ratio(architecture, production)
    return latency if ddr <= DDR_LIMIT else max(latency, ddr)


def train(run: RunContext, pairs: TrainingPairs, searched: Json) -> Json:
    """Fine-tune the chosen network in float; the weights are `float.npz`."""
    architecture = Architecture.from_json(searched["chosen"])
    net, start = start_network(run, architecture, pairs)
    finetune(
        net, pairs.normal, pairs.hard, _budget(run, FINETUNE_SHARE),
        settings=_on_clips(replace(FINETUNE, seed=run.settings.seed, perception=run.settings.perception), net),
        progress=lambda share, what: run.progress(f"training: {what}", share),
        checkpoint=run.folder.path / "finetune.pt",
    )  # fmt: skip
    run.folder.write("float.npz", save_net(net))
    return {
        "architecture": architecture.to_json(),
        "start": start,
        "normal_validation": evaluate(net, pairs.normal_validation).psnr_y,
        "hard_validation": evaluate(net, pairs.hard_validation).psnr_y,
    }


def quantise(run: RunContext, pairs: TrainingPairs) -> Json:
    """Quantisation-aware training and exact export; the model is `model.onnx`."""
    net = load_net(run.folder.read("float.npz"))
    quantised = qat(
        net, pairs.normal, pairs.hard, _budget(run, QAT_SHARE),
        settings=_on_clips(replace(QAT_SETTINGS, hard_share=FINETUNE.hard_share, seed=run.settings.seed), net),
        checkpoint=run.folder.path / "qat.pt",
        progress=lambda share, what: run.progress(f"quantisation-aware training: {what}", share),
    )  # fmt: skip
    model = quantised.model
    run.folder.write("model.onnx", model)
    return {
        "bytes": len(model),
        "differs_by_lsb": quantised.agreement.max_lsb,
        "differing_share": quantised.agreement.share,
        "normal_validation": evaluate(model, pairs.normal_validation).psnr_y,
        "hard_validation": evaluate(model, pairs.hard_validation).psnr_y,
    }


def start_network(run: RunContext, architecture: Architecture, pairs: TrainingPairs) -> tuple[VsrNet, str]:
    """Where fine-tuning begins, and its name: production's weights, or the supernet's slice when that is better."""
    own = load_supernet(run.folder.path / "supernet.npz").extract(architecture)
    if architecture.trunk != run.parent.architecture.trunk:
        return own, "supernet"
    inherited = inherit(parent_network(run), architecture)
    if _validated(own, pairs) > _validated(inherited, pairs):
        return own, "supernet"
    return inherited, "production"


def _on_clips(settings: TrainSettings, net: VsrNet) -> TrainSettings:
    """Where the net has history: settings that draw clips, and the net told so."""
    net.frames = FRAMES if net.architecture.history else 1
    return replace(settings, frames=net.frames)


def _validated(net: VsrNet, pairs: TrainingPairs) -> float:
    """Mean dB of both conditions on the pairs set aside."""
    return 0.5 * (evaluate(net, pairs.normal_validation).psnr_y + evaluate(net, pairs.hard_validation).psnr_y)


def _budget(run: RunContext, share: float) -> Budget:
    minutes = run.settings.budget_minutes
    if minutes < MINIMUM_MINUTES:
        raise BudgetError(
            f"a budget of {minutes:g} minutes trains nothing; give --budget-minutes {MINIMUM_MINUTES:g} or more"
        )
    seconds = 60.0 * minutes * share
    return Budget(seconds=seconds, wall_seconds=1.25 * seconds)


def _search_json(result: SearchResult, inherited: Architecture) -> Json:
    return {
        "chosen": result.chosen.architecture.to_json(),
        "chosen_psnr": result.chosen.psnr,
        "chosen_latency_ratio": result.chosen.latency_ratio,
        "inherited": inherited.to_json(),
        "searched_stages": list(result.searched),
        "space": result.space_size,
        "front": [_row(candidate) for candidate in result.front],
        "evaluated": [_row(candidate) for candidate in result.evaluated],
    }


def _row(candidate: Candidate) -> Json:
    return {
        "architecture": candidate.architecture.to_json(),
        "psnr": candidate.psnr,
        "latency_ratio": candidate.latency_ratio,
    }
