"""Middle steps: study, search, train, quantise. Each leaves its artefact, so a killed run goes on where it was.

What is independent and takes time are jobs (`flows.steps.jobs`), which the run's `spread` has done somewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

from torch import nn

from flows.run_folder import Json
from flows.search.nsga import Candidate, SearchResult, SearchSettings, search
from flows.search.sensitivity import affected_stages, stage_responses
from flows.search.table import OperatorTable
from flows.search.widen import contains, widenings
from flows.spread.job import Job
from flows.steps.ahead import judge_ahead
from flows.steps.budget import FINETUNE_CHECKPOINT, Training, budget_of, require_an_epoch
from flows.steps.context import RunContext
from flows.steps.hard import PREPARED, TrainingPairs
from flows.steps.material import Material, laid
from flows.steps.parent import parent_network
from flows.steps.roles import CALIBRATION, FLOAT, PARENT_SUPERNET, PARENT_WEIGHTS, SUPERNET
from flows.storage import write_whole
from flows.tasks.curve import curve_of
from flows.tasks.vsr.architecture import Architecture
from flows.tasks.vsr.history import clip_frames
from flows.tasks.vsr.train import TrainSettings

DDR_LIMIT = 1.08
ADAPT = TrainSettings(rate=1e-3)
FINETUNE = TrainSettings(batch=16, rate=1.5e-3, hard_share=1 / 6, keep=0.0)
"""Enough hard patches that stand-ins milder than the field still teach it; with a quarter of them healthy calls lost up
to 0.14 dB on slow processors, where the gate allows 0.05."""


def study(run: RunContext, pairs: TrainingPairs) -> Json:
    """Which stages the hard conditions affect, and why."""
    net = parent_network(run)
    responses = stage_responses(net, pairs.normal, pairs.hard, seed=run.settings.seed, task=run.task)
    affected = affected_stages(responses) or tuple(range(len(run.parent.architecture.stages)))
    return {"affected": list(affected), "stages": [vars(response) for response in responses]}


def measure(run: RunContext) -> Json:
    """Operator latencies on every target, from micro-programs on the emulated device; a job a target."""
    jobs = [
        Job(
            f"operators of {target}", "flows.steps.jobs:measure",
            {
                "task": run.task.name, "target": target, "profiles": run.settings.profiles,
                "trunk": run.parent.architecture.trunk, "lab": run.other_lab,
            },
            {PARENT_SUPERNET: run.parent.supernet}, run.settings.seed,
        )
        for target in run.settings.targets
    ]  # fmt: skip
    tables = [OperatorTable.from_json(found["table"]) for found in run.results(jobs, "measuring operators")]
    facts = {target: told for table in tables for target, told in table.facts.items()}
    table = OperatorTable(tuple(row for table in tables for row in table.rows), facts)
    run.folder.write("operator_table.json", table.to_json().encode())
    return {"rows": len(table.rows), "facts": table.facts}


def search_architecture(run: RunContext, pairs: TrainingPairs, studied: Json) -> Json:
    """Adapt the supernet's affected stages, then search them under the latency limit."""
    inherited = run.parent.architecture
    affected = tuple(int(index) for index in studied["affected"])
    material = _material(run, pairs)
    _write_adapted(run, material, affected)
    table = OperatorTable.from_json(run.folder.read("operator_table.json").decode())
    space = run.task.load_supernet(run.parent.supernet).space
    known: dict[Architecture | None, float] = {}

    def judge(networks: Sequence[Architecture | None], what: str | None = None) -> None:
        new = [network for network in dict.fromkeys(networks) if network not in known]
        found = run.results([_judging(run, material, network) for network in new], what)
        known.update(zip(new, (float(one["psnr"]) for one in found), strict=True))

    def quality(architecture: Architecture) -> float:
        judge([architecture])
        return max(known[architecture], known[None]) if contains(architecture, inherited) else known[architecture]

    @cache
    def latency(architecture: Architecture) -> float:
        return cost_ratio(table, architecture, inherited)

    settings = SearchSettings(limit=run.settings.latency_limit, seed=run.settings.seed)
    wider = widenings(space, inherited, affected, latency, settings.limit)
    if run.spread.apart:
        judge([None, inherited, *wider], "judging networks")
        judge_ahead(
            space, inherited, affected, quality, latency, settings, (inherited, *wider),
            lambda networks: judge(networks, "judging networks"),
        )  # fmt: skip
    judge([None])
    result = search(
        space, inherited, affected, quality, latency, settings,
        progress=lambda share: run.progress("searching", share), also=wider,
    )  # fmt: skip
    return _search_json(result, inherited)


def _write_adapted(run: RunContext, material: Material, affected: tuple[int, ...]) -> None:
    """`supernet.npz`."""
    job = Job(
        "adapting the supernet", "flows.steps.jobs:adapt",
        {
            "task": run.task.name, "inherited": run.parent.architecture.to_json(), "affected": affected,
            **_training(run, Training.ADAPT),
        },
        {**material.files, PARENT_SUPERNET: run.parent.supernet}, run.settings.seed, material.given,
    )  # fmt: skip
    (adapted,) = run.results([job], "adapting the supernet")
    run.folder.write("supernet.npz", run.left(adapted))


def _judging(run: RunContext, material: Material, architecture: Architecture | None) -> Job:
    """The judging of a network of the adapted supernet, or of production."""
    wanted = architecture.to_json() if architecture else None
    files = {SUPERNET: run.folder.path / "supernet.npz"} if architecture else _parent_files(run)
    return Job(
        f"judging {wanted or 'production'}", "flows.steps.jobs:judge",
        {"task": run.task.name, "architecture": wanted, "parent": run.parent.architecture.to_json()},
        {**material.files, **files}, run.settings.seed, material.given,
    )  # fmt: skip


def cost_ratio(table: OperatorTable, architecture: Architecture, production: Architecture) -> float:
    """Latency relative to production; a network that moves too much over DDR counts by that instead."""
    ddr = table.worst_ddr_ratio(architecture, production)
    latency = table.worst_ratio(architecture, production)
    return latency if ddr <= DDR_LIMIT else max(latency, ddr)


def train(run: RunContext, pairs: TrainingPairs, searched: Json) -> Json:
    """Fine-tune the candidates in float, a job each, and keep the best; its weights are `float.npz`."""
    architectures = contenders(searched, run.settings.latency_limit, run.settings.candidates)
    checkpoints = [FINETUNE_CHECKPOINT]
    if len(architectures) > 1:
        checkpoints = [f"{Path(FINETUNE_CHECKPOINT).stem}-{n + 1}.pt" for n in range(len(architectures))]
    material = _material(run, pairs)
    jobs = [
        Job(
            f"fine-tuning candidate {number + 1}", "flows.steps.jobs:finetune",
            {
                "task": run.task.name, "architecture": architecture, "parent": run.parent.architecture.to_json(),
                "asks": run.settings.asks, **_training(run, Training.FINETUNE), "checkpoint": checkpoint,
            },
            {**material.files, **_parent_files(run), SUPERNET: run.folder.path / "supernet.npz"},
            run.settings.seed + number, material.given,
        )
        for number, (architecture, checkpoint) in enumerate(zip(architectures, checkpoints, strict=True))
    ]  # fmt: skip
    trained = run.results(jobs, "training")
    best = max(range(len(trained)), key=lambda number: (_mean(trained[number]), -number))
    if len(trained) > 1:
        curve = curve_of(run.folder.path / checkpoints[best]).read_bytes()
        write_whole(curve_of(run.folder.path / FINETUNE_CHECKPOINT), lambda file: file.write(curve))
    steps = require_an_epoch(run, Training.FINETUNE, pairs.normal, FINETUNE)
    run.folder.write("float.npz", run.left(trained[best]))
    told = ("start", "steps", "normal_validation", "hard_validation")
    rows = [
        {"architecture": architecture, **{name: found[name] for name in told}}
        for architecture, found in zip(architectures, trained, strict=True)
    ]
    return {**rows[best], "steps": steps, "candidates": rows}


def contenders(searched: Json, limit: float, count: int) -> list[str]:
    """The search's choice, then at most `count` - 1 others within the limit: the front's, then the rest, best first."""
    rows = [row for part in ("front", "evaluated") for row in sorted(searched.get(part, ()), key=lambda r: -r["psnr"])]
    others = [row["architecture"] for row in rows if row["latency_ratio"] <= limit]
    return list(dict.fromkeys((searched["chosen"], *others)))[:count]


def settled(searched: Json, trained: Json) -> Json:
    """What the search found, with the candidate that training chose in the place of the search's choice."""
    row = next((row for row in searched["evaluated"] if row["architecture"] == trained["architecture"]), None)
    if row is None:
        return searched
    chosen = {"chosen_psnr": row["psnr"], "chosen_latency_ratio": row["latency_ratio"]}
    return {**searched, "chosen": trained["architecture"], **chosen}


def quantise(run: RunContext, pairs: TrainingPairs) -> Json:
    """Quantisation-aware training and exact export, as a job; the model is `model.onnx`."""
    material, folder = _material(run, pairs), run.settings.calibration
    calibration = {CALIBRATION: Path(folder) / "report.json"} if folder else {}
    job = Job(
        "quantisation-aware training", "flows.steps.jobs:quantise",
        {"task": run.task.name, **_training(run, Training.QAT)},
        {**material.files, **calibration, FLOAT: run.folder.path / run.float_weights},
        run.settings.seed, material.given,
    )  # fmt: skip
    (quantised,) = run.results([job], "quantisation-aware training")
    model = run.left(quantised)
    run.folder.write("model.onnx", model)
    return {"bytes": len(model), **{name: value for name, value in quantised.items() if name != "file"}}


def on_clips(settings: TrainSettings, net: nn.Module) -> TrainSettings:
    """Where the net has history: settings that draw clips, and the net told so."""
    return replace(settings, frames=clip_frames(net))


def _training(run: RunContext, training: Training) -> Json:
    return {"budget": asdict(budget_of(run, training)), "checkpoint": training.value[2]}


def _material(run: RunContext, pairs: TrainingPairs) -> Material:
    return laid(vars(pairs), run.folder.path / PREPARED)


def _parent_files(run: RunContext) -> dict[str, Path]:
    """The production network in float: its own weights when they were kept, else the supernet."""
    weights = run.parent.weights
    return {PARENT_WEIGHTS: weights} if weights is not None else {PARENT_SUPERNET: run.parent.supernet}


def _mean(trained: Json) -> float:
    return 0.5 * float(trained["normal_validation"] + trained["hard_validation"])


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
