"""Middle steps: study, search, train, quantise. Each leaves its artefact, so a killed run goes on where it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from torch import nn

from flows.quant.calibration_set import read_set
from flows.quant.qat import QAT_SETTINGS, qat
from flows.run_folder import Json
from flows.search.adapt import adapt_supernet
from flows.search.nsga import Candidate, SearchResult, SearchSettings, search
from flows.search.sensitivity import affected_stages, stage_responses
from flows.search.table import OperatorTable, measure_table
from flows.search.widen import contains, widenings
from flows.steps.budget import (
    ADAPT_CHECKPOINT,
    FINETUNE_CHECKPOINT,
    QAT_CHECKPOINT,
    Training,
    budget_of,
    require_an_epoch,
)
from flows.steps.context import RunContext
from flows.steps.hard import TrainingPairs
from flows.steps.parent import parent_network
from flows.tasks.vsr.architecture import Architecture
from flows.tasks.vsr.history import clip_frames
from flows.tasks.vsr.train import TrainSettings

DDR_LIMIT = 1.08
ADAPT = TrainSettings(rate=1e-3)
FINETUNE = TrainSettings(batch=16, rate=1.5e-3, hard_share=1 / 4, keep=0.0)
"""Enough hard patches that stand-ins milder than the field still teach it; healthy ones remain the many."""


def study(run: RunContext, pairs: TrainingPairs) -> Json:
    """Which stages the hard conditions affect, and why."""
    net = parent_network(run)
    responses = stage_responses(net, pairs.normal, pairs.hard, seed=run.settings.seed, task=run.task)
    affected = affected_stages(responses) or tuple(range(len(run.parent.architecture.stages)))
    return {"affected": list(affected), "stages": [vars(response) for response in responses]}


def measure(run: RunContext) -> Json:
    """Operator latencies on every target, from micro-programs on the emulated device."""
    supernet = run.task.load_supernet(run.parent.supernet)
    table = measure_table(
        supernet.space, (run.parent.architecture.trunk,), run.settings.targets, run.settings.profiles, run.lab_command,
        progress=lambda share: run.progress("measuring operators", share), task=run.task,
    )  # fmt: skip
    run.folder.write("operator_table.json", table.to_json().encode())
    return {"rows": len(table.rows), "facts": table.facts}


def search_architecture(run: RunContext, pairs: TrainingPairs, studied: Json) -> Json:
    """Adapt the supernet's affected stages, then search them under the latency limit."""
    supernet = run.task.load_supernet(run.parent.supernet)
    inherited = run.parent.architecture
    affected = tuple(int(index) for index in studied["affected"])
    adapt_supernet(
        supernet, inherited, affected, pairs.normal, pairs.hard, budget_of(run, Training.ADAPT),
        replace(ADAPT, seed=run.settings.seed),
        progress=lambda share, what: run.progress(f"adapting the supernet: {what}", share),
        checkpoint=run.folder.path / ADAPT_CHECKPOINT,
        task=run.task,
    )  # fmt: skip
    run.task.save_supernet(supernet, run.folder.path / "supernet.npz")
    table = OperatorTable.from_json(run.folder.read("operator_table.json").decode())
    supernet.eval()

    production = _validated(run, parent_network(run), pairs)

    def quality(architecture: Architecture) -> float:
        slice_of_it = _validated(run, supernet.extract(architecture), pairs)
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
    run.task.finetune(
        net, pairs.normal, pairs.hard, budget_of(run, Training.FINETUNE),
        settings=on_clips(replace(FINETUNE, seed=run.settings.seed, perception=run.settings.perception), net),
        progress=lambda share, what: run.progress(f"training: {what}", share),
        checkpoint=run.folder.path / FINETUNE_CHECKPOINT,
    )  # fmt: skip
    steps = require_an_epoch(run, Training.FINETUNE, pairs.normal, FINETUNE)
    run.folder.write("float.npz", run.task.save(net))
    return {
        "steps": steps,
        "architecture": architecture.to_json(),
        "start": start,
        "normal_validation": run.task.evaluate(net, pairs.normal_validation).quality,
        "hard_validation": run.task.evaluate(net, pairs.hard_validation).quality,
    }


def quantise(run: RunContext, pairs: TrainingPairs) -> Json:
    """Quantisation-aware training and exact export; the model is `model.onnx`."""
    net = run.task.load(run.folder.read(run.float_weights))
    calibration = read_set(Path(run.settings.calibration)) if run.settings.calibration else None
    quantised = qat(
        net, pairs.normal, pairs.hard, budget_of(run, Training.QAT),
        settings=on_clips(replace(QAT_SETTINGS, hard_share=FINETUNE.hard_share, seed=run.settings.seed), net),
        checkpoint=run.folder.path / QAT_CHECKPOINT,
        progress=lambda share, what: run.progress(f"quantisation-aware training: {what}", share),
        calibration=calibration.batches() if calibration else (), task=run.task,
    )  # fmt: skip
    model = quantised.model
    run.folder.write("model.onnx", model)
    return {
        "bytes": len(model),
        "differs_by_lsb": quantised.agreement.max_lsb,
        "differing_share": quantised.agreement.share,
        "calibration_set": calibration.facts() if calibration else None,
        "normal_validation": run.task.evaluate(model, pairs.normal_validation).quality,
        "hard_validation": run.task.evaluate(model, pairs.hard_validation).quality,
    }


def start_network(run: RunContext, architecture: Architecture, pairs: TrainingPairs) -> tuple[nn.Module, str]:
    """Where fine-tuning begins, and its name: production's weights, or the supernet's slice when that is better."""
    own = run.task.load_supernet(run.folder.path / "supernet.npz").extract(architecture)
    if architecture.trunk != run.parent.architecture.trunk:
        return own, "supernet"
    inherited = run.task.inherit(parent_network(run), architecture)
    if _validated(run, own, pairs) > _validated(run, inherited, pairs):
        return own, "supernet"
    return inherited, "production"


def on_clips(settings: TrainSettings, net: nn.Module) -> TrainSettings:
    """Where the net has history: settings that draw clips, and the net told so."""
    return replace(settings, frames=clip_frames(net))


def _validated(run: RunContext, net: nn.Module, pairs: TrainingPairs) -> float:
    """Mean quality of both conditions on the pairs set aside."""
    return 0.5 * sum(run.task.evaluate(net, one).quality for one in (pairs.normal_validation, pairs.hard_validation))


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
