"""What a run spreads: each function is a job, so what it returns follows from its files, settings and seed alone.

Settings: `task` everywhere; `budget` and `checkpoint` (a name in the run's folder) of trainings.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import torch
from torch import nn

from flows.quant.calibration_set import read_set
from flows.quant.qat import QAT_SETTINGS, qat
from flows.run_folder import Json
from flows.search.adapt import adapt_supernet
from flows.search.table import measure_table
from flows.spread.digests import digest_of
from flows.spread.work import Work
from flows.steps.evaluation import EvaluationFrames
from flows.steps.learn import ADAPT, FINETUNE, on_clips
from flows.steps.material import Sets, sets_of
from flows.steps.roles import CALIBRATION, FLOAT, MODEL, PARENT_SUPERNET, PARENT_WEIGHTS, SUPERNET
from flows.storage import write_whole
from flows.tasks.curve import Curve, curve_of
from flows.tasks.elastic import ElasticNet
from flows.tasks.registry import task_named
from flows.tasks.task import Task
from flows.tasks.training import Budget
from flows.tasks.vsr.architecture import Architecture
from flows.tasks.vsr.perception import Perception

LAB = ("-m", "edge_agent.lab")


def measure(work: Work) -> Json:
    """Operator table of one target, with `lab` where the device is not the emulated one."""
    task, settings = _task(work), work.settings
    supernet = task.load_supernet(work.files[PARENT_SUPERNET])
    sizes = [(int(rows), int(columns)) for rows, columns in settings["profiles"]]
    lab = settings["lab"] or (sys.executable, *LAB)
    table = measure_table(
        supernet.space, (int(settings["trunk"]),), (str(settings["target"]),), sizes, lab,
        progress=lambda share: work.progress(share, str(settings["target"])), task=task,
    )  # fmt: skip
    return {"table": table.to_json()}


def adapt(work: Work) -> Json:
    """The supernet with its affected stages adapted; the file is named."""
    task, pairs = _task(work), sets_of(work)
    supernet = task.load_supernet(work.files[PARENT_SUPERNET])
    adapt_supernet(
        supernet, Architecture.from_json(work.settings["inherited"]), tuple(work.settings["affected"]),
        pairs["normal"], pairs["hard"], _budget(work), replace(ADAPT, seed=work.seed),
        progress=work.progress, checkpoint=_checkpoint(work), task=task,
    )  # fmt: skip
    task.save_supernet(supernet, work.beside(".npz"))
    return {"file": work.beside(".npz").name}


def judge(work: Work) -> Json:
    """Quality on the pairs set aside: of the slice of `architecture`, or of production where there is none."""
    task = _task(work)
    if work.settings["architecture"] is None:
        return {"psnr": validated(task, _parent(work), sets_of(work))}
    path = work.files[SUPERNET]
    supernet = _supernet(task.name, path, digest_of(path))
    net = supernet.extract(Architecture.from_json(work.settings["architecture"]))
    return {"psnr": validated(task, net, sets_of(work))}


def finetune(work: Work) -> Json:
    """A candidate, fine-tuned from where it begins best; the file of its float weights is named."""
    task, pairs = _task(work), sets_of(work)
    net, start = _start(work, pairs)
    asks = Perception.parse(work.settings["asks"])
    task.finetune(
        net, pairs["normal"], pairs["hard"], _budget(work),
        settings=on_clips(replace(FINETUNE, seed=work.seed, perception=asks), net),
        progress=work.progress, checkpoint=_checkpoint(work),
    )  # fmt: skip
    write_whole(work.beside(".npz"), lambda file: file.write(task.save(net)))
    steps = Curve.load(curve_of(_checkpoint(work))).steps
    return {"file": work.beside(".npz").name, "start": start, "steps": steps, **_validation(task, net, pairs)}


def quantise(work: Work) -> Json:
    """Quantisation-aware training and exact export; the file of the INT8 model is named."""
    task, pairs = _task(work), sets_of(work)
    net = task.load(work.files[FLOAT].read_bytes())
    report = work.files.get(CALIBRATION)
    calibration = read_set(report.parent) if report else None
    quantised = qat(
        net, pairs["normal"], pairs["hard"], _budget(work),
        settings=on_clips(replace(QAT_SETTINGS, hard_share=FINETUNE.hard_share, seed=work.seed), net),
        checkpoint=_checkpoint(work), progress=work.progress,
        calibration=calibration.batches() if calibration else (), task=task,
    )  # fmt: skip
    write_whole(work.beside(".onnx"), lambda file: file.write(quantised.model))
    return {
        "file": work.beside(".onnx").name,
        "differs_by_lsb": quantised.agreement.max_lsb,
        "differing_share": quantised.agreement.share,
        "calibration_set": calibration.facts() if calibration else None,
        **_validation(task, quantised.model, pairs),
    }


def prove(work: Work) -> Json:
    """One network on one evaluation set: what decides and flicker, and RGB PSNR as the gate has it."""
    task = _task(work)
    (pairs,) = sets_of(work).values()
    net = task.load(work.files[FLOAT].read_bytes()) if FLOAT in work.files else work.files[MODEL].read_bytes()
    metrics = task.evaluate(net, pairs)
    frames = EvaluationFrames("", "", pairs.pairs, task)
    return {"quality": metrics.quality, "flicker": metrics.flicker, "psnr_rgb": frames.psnr(net)}


def validated(task: Task, net: nn.Module, pairs: Sets) -> float:
    """Mean quality of both conditions on the pairs set aside."""
    return 0.5 * sum(_validation(task, net, pairs).values())


def _validation(task: Task, net: nn.Module | bytes, pairs: Sets) -> dict[str, float]:
    return {name: task.evaluate(net, pairs[name]).quality for name in ("normal_validation", "hard_validation")}


def _start(work: Work, pairs: Sets) -> tuple[nn.Module, str]:
    """Where fine-tuning begins, and its name: production's weights, or the supernet's slice when that is better."""
    task, architecture = _task(work), Architecture.from_json(work.settings["architecture"])
    own = task.load_supernet(work.files[SUPERNET]).extract(architecture)
    if architecture.trunk != Architecture.from_json(work.settings["parent"]).trunk:
        return own, "supernet"
    inherited = task.inherit(_parent(work), architecture)
    if validated(task, own, pairs) > validated(task, inherited, pairs):
        return own, "supernet"
    return inherited, "production"


def _parent(work: Work) -> nn.Module:
    """The production network in float: its own weights when they were kept, else the supernet's slice."""
    task = _task(work)
    if PARENT_WEIGHTS in work.files:
        return task.load(work.files[PARENT_WEIGHTS].read_bytes())
    return task.load_supernet(work.files[PARENT_SUPERNET]).extract(Architecture.from_json(work.settings["parent"]))


@lru_cache(maxsize=1)
def _supernet(task: str, path: Path, _digest: str) -> ElasticNet:
    """The supernet that slices are judged of, read once for all of them."""
    supernet = task_named(task).load_supernet(path)
    supernet.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # stub lacks the keyword-only form
    supernet.eval()
    return supernet


def _task(work: Work) -> Task:
    return task_named(str(work.settings["task"]))


def _budget(work: Work) -> Budget:
    return Budget(**work.settings["budget"])


def _checkpoint(work: Work) -> Path:
    """Trainings go on from checkpoints in the run's folder, whoever began them."""
    return work.folder.parent / str(work.settings["checkpoint"])
