"""The bench of the flow says what it saw: a file that differs, a missing kill or a second rollout is not ok."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pytest

from benchmarks import retrain
from benchmarks.retrain import KEY, Ended, killed_figures, run_figures, trainings
from contracts.wire import RolloutRequest
from edgeloop.figures import Figure
from flows.retrain import STEPS
from flows.tasks.curve import Curve
from tests.support.flow_killing import KILLS, Driven, results
from tests.support.flow_twin import FlowPlatformTwin

FILES = (
    "operator_table.json", "float.npz", "model.onnx", "supernet.npz", "candidate.elb", "architecture.json",
    "accuracy.json", "data_list.json", "constraints.json", "front.svg", "curves.svg", "contact_sheet.png",
    "release_package.json",
)  # fmt: skip


def _ended(state: Path, kills: int, cpu: float = 100.0) -> Ended:
    folder = state / "runs" / KEY
    folder.mkdir(parents=True)
    (state / "models" / KEY).mkdir(parents=True)
    (state / "models" / KEY / "model.json").write_text("{}")
    row = {"condition": "hard", "gain": 0.5, "unit": "dB", "int8_drop_db": 0.01}
    for name in FILES:
        (folder / name).write_bytes(name.encode())
    for step in STEPS:
        (folder / f"{step}.json").write_text(json.dumps({"set": row} if step == "prove" else {}))
    for name, count in (("adapt", 3), ("finetune", 5), ("qat", 7)):
        Curve([(count, 1.0, 0.5)], retreats=0).save(folder / f"{name}.curve.json")
    steps = {step: {"seconds": 1.5} for step in STEPS}
    ends = (*(-signal.SIGKILL for _ in range(kills)), 0)
    return Ended(Driven(steps, 60.0, cpu, ends), state, FlowPlatformTwin(np.zeros((1, 32), np.float32), 0.1))


def _by_id(figures: list[Figure]) -> dict[str, Figure]:
    return {figure.id: figure for figure in figures}


@pytest.fixture
def both(tmp_path: Path) -> tuple[Ended, Ended]:
    killed, alone = _ended(tmp_path / "killed", len(STEPS), 120.0), _ended(tmp_path / "alone", 0)
    for one in (killed, alone):
        one.twin.builds["build"] = one.twin.models  # type: ignore[assignment]  # only counted
        one.twin.rollouts.append(RolloutRequest(digest="a" * 96))
    return killed, alone


def test_equal_runs_keep_every_promise(both: tuple[Ended, Ended]) -> None:
    found = _by_id(killed_figures(*both))
    assert all(figure.ok for figure in found.values()), found
    assert found["killed.files_equal"].value == len(FILES) + len(STEPS) + 1
    assert found["killed.extra_cpu"].value == pytest.approx(0.2)
    assert trainings(both[1]) == [(3, 0), (5, 0), (7, 0)]
    assert _by_id(run_figures("alone", both[1]))["alone.learning_steps"].value == "3/5/7"


def test_one_other_file_is_named(both: tuple[Ended, Ended]) -> None:
    (both[0].state / "runs" / KEY / "model.onnx").write_bytes(b"other")
    figure = _by_id(killed_figures(*both))["killed.files_equal"]
    assert (figure.ok, figure.unit) == (False, "model.onnx")
    assert set(results(both[1].state, KEY, STEPS)) >= {"model.onnx", "generation/model.json"}


def test_missed_kill_second_rollout_and_long_run_are_missed(both: tuple[Ended, Ended], tmp_path: Path) -> None:
    slow = _ended(tmp_path / "slow", len(STEPS) - 1, retrain.WALL_S + 1.0)
    slow.twin.rollouts += [RolloutRequest(digest="a" * 96)] * 2
    found = _by_id(killed_figures(slow, both[1]))
    missed = {name for name, figure in found.items() if not figure.ok}
    assert missed == {
        "killed.restarts", "killed.cpu", "killed.platform_told_the_same", "killed.builds", "killed.rollouts",
    }  # fmt: skip
    assert len(KILLS) == len(STEPS)
