"""Another task goes through study, search, training, INT8, export, compiler, device and gate as they are."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from compiler.driver import compile_bundle
from contracts.bundle import Bundle
from contracts.lab import LabClient
from contracts.npu import load_spec
from flows.data.codec import write_lossless
from flows.data.degrade import HARD, NORMAL
from flows.data.intake.survey import survey
from flows.data.pairs import PairSet, View, make_pairs
from flows.errors import FlowError
from flows.model_store import SEEDS
from flows.quant.qat import QAT_SETTINGS, qat
from flows.search.adapt import adapt_supernet
from flows.search.nsga import SearchSettings, search
from flows.search.sensitivity import affected_stages, stage_responses
from flows.search.table import measure_table
from flows.steps.evaluation import EvaluationFrames
from flows.tasks import registry
from flows.tasks.task import Task
from flows.tasks.training import Budget
from flows.tasks.vsr.architecture import Architecture
from flows.tasks.vsr.train import TrainSettings
from services.builds.evaluation import parse
from services.builds.gate import judge
from services.builds.measurements import Candidate
from services.builds.measuring import Clip, measure, plan
from tests.support.second_task import FIRST, MASK, SPACE, MaskSupernet

pytestmark = pytest.mark.slow

LAB = (sys.executable, "-m", "edge_agent.lab")
SIZE = (32, 48)
SETTINGS = TrainSettings(batch=8, patch=16, rate=4e-3, hard_share=0.25)


@dataclass(frozen=True)
class Learned:
    """What the way through the flow's parts left."""

    affected: tuple[int, ...]
    chosen: Architecture
    ratio: float
    float_db: float
    untrained_db: float
    model: bytes
    frames: EvaluationFrames


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> tuple[PairSet, PairSet]:
    folder = tmp_path_factory.mktemp("clips")
    y, x = np.mgrid[0:64, 0:96]
    waves = 127 + 90 * np.sin(x[..., None] / (9.0, 11.0, 13.0)) * np.cos(y[..., None] / 7.0)
    for name, shift in (("ann", 0), ("zoe", 17)):
        scene = np.stack([np.roll(waves, shift + frame, 1) for frame in range(8)])
        write_lossless(folder / f"{name}.mp4", np.clip(scene, 0, 255).astype(np.uint8))
    clips = survey(folder, unlicensed=True).corpus.clips
    both = [make_pairs(clips, [condition], (View(),), MASK.pair) for condition in (NORMAL, HARD)]
    return both[0], both[1]


@pytest.fixture(scope="module")
def learned(pairs: tuple[PairSet, PairSet]) -> Learned:
    task: Task = MASK
    normal, hard = pairs
    parent = task.finetune(
        task.build(FIRST), normal, hard, Budget(steps=150), settings=SETTINGS, progress=None, checkpoint=None
    )
    affected = affected_stages(stage_responses(parent, normal, hard, task=task))
    supernet = adapt_supernet(
        MaskSupernet(SPACE), FIRST, (0, 1), normal, hard, Budget(steps=20), replace(SETTINGS, rate=1e-3), task=task
    )
    table = measure_table(SPACE, (8,), ("npu-4t",), (SIZE,), LAB, task=task)
    found = search(
        SPACE, FIRST, (0, 1), lambda one: task.evaluate(supernet.extract(one), normal).psnr_y,
        lambda one: table.worst_ratio(one, FIRST), SearchSettings(population=4, generations=2, limit=1.5),
    )  # fmt: skip
    untrained = task.build(found.chosen.architecture)
    before = task.evaluate(untrained, normal).psnr_rgb
    net = task.finetune(untrained, normal, hard, Budget(steps=300), settings=SETTINGS, progress=None, checkpoint=None)
    int8 = qat(net, normal, hard, Budget(steps=30), settings=replace(QAT_SETTINGS, batch=8, patch=16), task=task)
    frames = EvaluationFrames("bright-normal", "normal", normal.pairs, task)
    return Learned(
        affected, found.chosen.architecture, found.chosen.latency_ratio, frames.psnr(net), before, int8.model, frames
    )


def test_it_is_studied_searched_and_trained(learned: Learned) -> None:
    assert set(learned.affected) <= {0, 1}
    assert SPACE.contains(learned.chosen)
    assert learned.ratio <= 1.5
    assert learned.float_db > learned.untrained_db + 3.0, "it learned to see where it is bright"


def test_its_int8_model_passes_the_gate_on_the_device(learned: Learned, tmp_path: Path) -> None:
    out, target = tmp_path / "mask.elb", "npu-4t"
    seeds = [(SEEDS / name).read_bytes() for name in ("quality.onnx", "observer.npz")]
    compile_bundle(learned.model, *seeds, (target,), (SIZE,), {"name": MASK.name}, out, "1", 1)
    bundle, shown = Bundle.open(out), parse(learned.frames.archive)
    clip = Clip("frames", "set-1", shown.condition, shown.profile, lambda: shown)
    with LabClient([*LAB, "--device-class", target]) as lab:
        lab.load(out)
        rows = tuple(measure(lab, bundle, target, play) for play in plan(bundle, target, [clip]))
    candidate = Candidate(
        "mask", bundle.size, rows, {shown.name: learned.float_db}, {target: load_spec(target).sram_bytes},
        {"set-1": shown.name},
    )  # fmt: skip
    verdict = judge(candidate, None)
    assert verdict.passed, verdict.reasons
    rules = " ".join(check.id for check in verdict.checks)
    assert all(rule in rules for rule in ("evidence.normal", "quantisation.drop", "quality.anchor", "oracle"))


def test_tasks_are_found_by_name_and_the_rest_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("bright-mask", "tests.support.second_task:MASK", registry.GROUP),
        EntryPoint("broken", "tests.support.nowhere:TASK", registry.GROUP),
        EntryPoint("other-name", "tests.support.second_task:MASK", registry.GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    assert registry.task_named("bright-mask") is MASK
    assert registry.task_named("vsr-x2").name == "vsr-x2"
    assert registry.names()[0] == "vsr-x2"
    with pytest.raises(FlowError, match="there is no task 'seg'; known: vsr-x2, bright-mask"):
        registry.task_named("seg")
    with pytest.raises(FlowError, match=r"broken .* cannot be loaded"):
        registry.task_named("broken")
    with pytest.raises(FlowError, match="calls itself 'bright-mask'"):
        registry.task_named("other-name")


def test_networks_of_another_task_are_refused() -> None:
    with pytest.raises(TypeError, match="no network of vsr-x2"):
        registry.task_named("vsr-x2").save(MASK.build(FIRST))
    with pytest.raises(TypeError, match="no supernet of vsr-x2"):
        registry.task_named("vsr-x2").save_supernet(MaskSupernet(SPACE), Path("never"))
