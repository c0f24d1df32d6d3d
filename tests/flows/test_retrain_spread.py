"""A run leaves the same bytes whoever does its jobs, also when workers and the flow are killed with -9 meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flows.data.clips import shrink
from flows.data.degrade import NORMAL
from flows.data.intake.survey import survey
from flows.data.pairs import Pair, PairSet
from flows.errors import StorageError
from flows.retrain import STEPS
from flows.run_folder import Json
from flows.spread.cluster import Cluster
from flows.spread.job import Job
from flows.spread.processes import Processes
from flows.spread.runner import Here, Runner
from flows.spread.spread import Spread
from flows.spread.work import Report
from flows.steps import learn, material
from flows.steps.context import RetrainSettings, RunContext
from flows.steps.hard import PREPARED, TrainingPairs
from flows.steps.pin import pinned
from flows.tasks.vsr.architecture import HAND_MADE, Architecture
from tests.flows.test_retrain import clips, platform_of
from tests.flows.test_retrain_bad_input import _context, folder
from tests.support.flow_killing import drive, results
from tests.support.flow_server import FlowServer
from tests.support.spread_jobs import began

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]

__all__ = ["clips", "folder"]
OTHER = Architecture(HAND_MADE.trunk, (*HAND_MADE.stages[:-1], replace(HAND_MADE.stages[-1], mid=16)))
SEARCHED: Json = {
    "chosen": HAND_MADE.to_json(),
    "front": [{"architecture": OTHER.to_json(), "psnr": 30.0, "latency_ratio": 0.9}],
    "evaluated": [
        {"architecture": HAND_MADE.to_json(), "psnr": 31.0, "latency_ratio": 1.0},
        {"architecture": OTHER.to_json(), "psnr": 30.0, "latency_ratio": 0.9},
    ],
}


@pytest.fixture(scope="module")
def pairs() -> TrainingPairs:
    y, x = np.mgrid[0:64, 0:64]
    waves = 127 + 60 * np.sin(x[..., None] / (2.0, 3.0, 5.0)) + 60 * np.cos(y[..., None] / 3.0)
    high = np.clip(np.stack([np.roll(waves, shift, 1) for shift in range(4)]), 0, 255).astype(np.uint8)
    made = PairSet((Pair("waves", NORMAL, shrink(high, 2), high),))
    return TrainingPairs(made, made, made, made)


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0") as made:
        yield made.scheduler_address


@pytest.fixture
def opened(folder: Path, tmp_path: Path) -> Callable[[str, Spread], RunContext]:
    """A run by name, two candidates, with the supernet that it would have adapted."""

    def make(name: str, spread: Spread) -> RunContext:
        run = pinned(_context(folder, tmp_path / name, steps=(2, 12, 4), candidates=2))
        (run.folder.path / "supernet.npz").write_bytes(run.parent.supernet.read_bytes())
        return replace(run, spread=spread)

    return make


def _learned(run: RunContext, pairs: TrainingPairs) -> tuple[Json, Json, bytes, bytes, bytes]:
    trained, quantised = learn.train(run, pairs, SEARCHED), learn.quantise(run, pairs)
    names = ("float.npz", "model.onnx", "finetune.curve.json")
    float_, model, curve = (run.folder.read(name) for name in names)
    return trained, quantised, float_, model, curve


def test_trainings_are_the_same_bytes_whoever_does_them(
    opened: Callable[[str, Spread], RunContext], pairs: TrainingPairs, scheduler: str
) -> None:
    found = []
    for name, runner in (("here", Here()), ("processes", Processes(2)), ("dask", Cluster(scheduler))):
        with Spread(runner) as spread:
            found.append(_learned(opened(name, spread), pairs))
    assert found[0] == found[1]
    assert found[0] == found[2]
    trained = found[0][0]
    assert [row["architecture"] for row in trained["candidates"]] == [HAND_MADE.to_json(), OTHER.to_json()]
    means = [0.5 * (row["normal_validation"] + row["hard_validation"]) for row in trained["candidates"]]
    assert trained["architecture"] == trained["candidates"][means.index(max(means))]["architecture"]
    assert trained["steps"] == 12


@pytest.mark.parametrize("kind", ["processes", "dask"])
def test_worker_killed_in_the_middle_of_a_training(
    kind: str, opened: Callable[[str, Spread], RunContext], pairs: TrainingPairs, scheduler: str
) -> None:
    runner: Runner = Processes(1) if kind == "processes" else Cluster(scheduler)
    whole = opened("whole", Spread())
    learn.train(replace(whole, settings=replace(whole.settings, candidates=1)), pairs, SEARCHED)
    killed = opened("killed", Spread(runner))
    with killed.spread:
        sent: list[Job] = []
        dying = _Renamed(killed.spread, sent)
        trained = learn.train(
            replace(killed, settings=replace(killed.settings, candidates=1), spread=dying), pairs, SEARCHED
        )
    assert [job.call for job in sent] == ["tests.support.spread_jobs:finetune_dying"]
    assert len(began(killed.folder.path / "jobs")) == 2, "begun, killed, begun again"
    assert killed.folder.read("float.npz") == whole.folder.read("float.npz")
    assert trained["steps"] == 12


class _Renamed(Spread):
    """Has another function do each job."""

    def __init__(self, inner: Spread, sent: list[Job]) -> None:
        self._inner, self._sent = inner, sent

    @property
    def apart(self) -> bool:
        return True

    def run(self, folder: Path, jobs: Sequence[Job], report: Report) -> list[Json]:
        dying = [replace(job, call="tests.support.spread_jobs:finetune_dying") for job in jobs]
        self._sent += dying
        return self._inner.run(folder, dying, report)


def test_no_room_for_pairs_stops_nothing_here_and_is_told_elsewhere(
    opened: Callable[[str, Spread], RunContext], pairs: TrainingPairs
) -> None:
    whole, full = opened("whole", Spread()), opened("full", Spread())
    (full.folder.path / f".{PREPARED}.part").symlink_to("/dev/full")
    assert learn.train(full, pairs, SEARCHED) == learn.train(whole, pairs, SEARCHED)
    assert full.folder.read("float.npz") == whole.folder.read("float.npz")
    with Spread(Processes(1)) as spread:
        apart = opened("apart", spread)
        (apart.folder.path / f".{PREPARED}.part").symlink_to("/dev/full")
        with pytest.raises(StorageError, match="no room left"):
            learn.train(apart, pairs, SEARCHED)
    assert material.laid(vars(pairs), full.folder.path / "other.bin").files


def test_contenders_are_the_choice_and_the_best_within_the_limit() -> None:
    rows = [
        {"architecture": name, "psnr": psnr, "latency_ratio": ratio}
        for name, psnr, ratio in (("a", 30.0, 1.0), ("b", 31.0, 1.03), ("c", 32.0, 1.2), ("d", 30.5, 1.04))
    ]
    searched = {"chosen": "a", "front": [rows[0], rows[1], rows[2]], "evaluated": rows}
    assert learn.contenders(searched, 1.04, 1) == ["a"]
    assert learn.contenders(searched, 1.04, 3) == ["a", "b", "d"]
    assert learn.contenders(searched, 1.04, 9) == ["a", "b", "d"]
    found = learn.settled({**searched, "chosen_psnr": 30.0, "chosen_latency_ratio": 1.0}, {"architecture": "b"})
    assert (found["chosen"], found["chosen_psnr"], found["chosen_latency_ratio"]) == ("b", 31.0, 1.03)


def test_settings_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGELOOP_RETRAIN_SPREAD", "processes:2")
    monkeypatch.setenv("EDGELOOP_RETRAIN_CANDIDATES", "3")
    found = RetrainSettings.from_environment()
    assert (found.spread, found.candidates) == ("processes:2", 3)
    assert RetrainSettings.from_environment(spread="here").spread == "here"


def test_a_spread_run_killed_on_its_way_is_the_run_that_was_done_here(
    clips: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    wanted: Json = {
        "steps": [30, 60, 20], "corpus": str(clips), "profiles": [[72, 88]], "targets": ["npu-4t", "npu-2t"],
        "candidates": 2,
    }  # fmt: skip
    found = []
    for spread, kills in (("here", ()), ("processes:2", ("search:middle", "train:middle", "prove:end"))):
        twin, state = platform_of(survey(clips).corpus), tmp_path_factory.mktemp("state")
        with FlowServer(twin) as server:
            driven = drive(state, "s", {**wanted, "spread": spread}, server.url, kills)
        assert driven.killed == len(kills)
        assert not (state / "runs" / "s" / "jobs").exists(), "what nothing needs any more"
        found.append(results(state, "s", STEPS))
    assert [name for name in found[0] if found[0][name] != found[1][name]] == []
