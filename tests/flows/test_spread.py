"""Jobs give the same bytes here, in processes and by Dask; each is done once, one whose worker dies is done again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from flows.errors import BudgetError, FlowError, StepError, StorageError
from flows.run_folder import Json
from flows.spread import cluster
from flows.spread.cluster import Cluster
from flows.spread.job import Job, order_for
from flows.spread.processes import Processes
from flows.spread.runner import ATTEMPTS, Here, Runner
from flows.spread.spread import Kind, Spread
from flows.spread.work import attempted, do
from tests.support.spread_jobs import began

pytestmark = pytest.mark.timeout(300)

CALLS = "tests.support.spread_jobs"


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """A Dask cluster of one worker process, which comes again when it dies."""
    from dask import config
    from distributed import LocalCluster

    with (
        config.set({"distributed.scheduler.allowed-failures": ATTEMPTS - 1}),
        LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0") as made,
    ):
        yield made.scheduler_address


@pytest.fixture(params=["here", "processes", "dask"])
def runner(request: pytest.FixtureRequest) -> Runner:
    if request.param == "dask":
        return Cluster(request.getfixturevalue("scheduler"))
    return Processes(2) if request.param == "processes" else Here()


@pytest.fixture(params=["processes", "dask"])
def apart(request: pytest.FixtureRequest) -> Runner:
    return Cluster(request.getfixturevalue("scheduler")) if request.param == "dask" else Processes(1)


def _quiet(_share: float, _what: str) -> None:
    pass


def _draws(count: int) -> list[Job]:
    return [Job(f"draw {n}", f"{CALLS}:draw", {"number": n}, seed=7 + n) for n in range(count)]


def _bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".json", ".bin")}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Json], dict[str, bytes]]:
    """Results and files of four jobs, done here in another order."""
    folder = tmp_path_factory.mktemp("here")
    found = Spread().run(folder, _draws(4)[::-1], _quiet)[::-1]
    return found, _bytes(folder)


def test_results_come_in_order_and_are_the_same_bytes(
    runner: Runner, tmp_path: Path, drawn: tuple[list[Json], dict[str, bytes]]
) -> None:
    with Spread(runner) as spread:
        found = spread.run(tmp_path, _draws(4), _quiet)
    assert [one["of"] for one in found] == [0, 1, 2, 3]
    assert (found, _bytes(tmp_path)) == drawn
    assert {one["threads"] for one in found} == {1}
    assert len({one["torch"] for one in found}) == 4, "each has a seed of its own"


def test_threads_and_random_numbers_of_this_process_are_left_alone(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        torch.manual_seed(1)
        np.random.seed(1)  # the shared state is what must not change
        want = torch.rand(()), np.random.rand()
        torch.manual_seed(1)
        np.random.seed(1)
        Spread().run(tmp_path, _draws(1), _quiet)
        assert (torch.rand(()), np.random.rand()) == want
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_what_is_done_is_kept_and_what_differs_is_done(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(b"123")
    job = Job("length", f"{CALLS}:length", {"number": 1}, {"data": data})
    folder = tmp_path / "jobs"
    assert Spread().run(folder, [job, job], _quiet) == [{"length": 3}] * 2
    assert Spread().run(folder, [job], _quiet) == [{"length": 3}]
    assert began(folder) == ["1"], "alike, and kept"
    data.write_bytes(b"12345")
    assert Spread().run(folder, [job], _quiet) == [{"length": 5}]
    Spread().run(folder, [replace(job, seed=1)], _quiet)
    assert began(folder) == ["1", "1", "1"], "another file, another seed"
    order_for(replace(job, seed=1), folder).result.write_bytes(b"{")
    assert Spread().run(folder, [replace(job, seed=1)], _quiet) == [{"length": 5}], "a damaged result is made again"


def test_who_comes_second_takes_what_the_first_has_made(tmp_path: Path) -> None:
    order = order_for(_draws(1)[0], tmp_path)
    do(order, _quiet)
    do(order, _quiet)
    assert attempted(order.to_json()) is None
    assert began(tmp_path) == ["0"]


def test_nobody_is_started_for_what_is_kept(tmp_path: Path) -> None:
    Spread().run(tmp_path, _draws(2), _quiet)
    runner = Processes(2)
    with Spread(runner) as spread:
        assert len(spread.run(tmp_path, _draws(2), _quiet)) == 2
        assert runner._workers == []


def test_error_of_a_job_is_the_flow_s_own_and_the_others_are_kept(runner: Runner, tmp_path: Path) -> None:
    good, bad = _draws(1), Job("refused", f"{CALLS}:refuse", {"number": 9})
    with Spread(runner) as spread:
        spread.run(tmp_path, good, _quiet)
        with pytest.raises(BudgetError, match="too little of it"):
            spread.run(tmp_path, [*good, bad], _quiet)
    assert began(tmp_path) == ["0", "9"]


def test_error_that_cannot_be_sent_comes_as_words(apart: Runner, tmp_path: Path) -> None:
    with Spread(apart) as spread, pytest.raises(StepError, match="job odd: Odd: 1 and 2"):
        spread.run(tmp_path, [Job("odd", f"{CALLS}:odd_error", {})], _quiet)


def test_a_job_that_kills_its_workers_is_named_and_given_up(apart: Runner, tmp_path: Path) -> None:
    with Spread(apart) as spread, pytest.raises(StepError, match=f"job deadly: its worker died {ATTEMPTS} times"):
        spread.run(tmp_path, [Job("deadly", f"{CALLS}:die_always", {})], _quiet)
    assert len(began(tmp_path)) == ATTEMPTS


def test_progress_of_other_processes_is_added_up(apart: Runner, tmp_path: Path) -> None:
    told: list[tuple[float, str]] = []

    def report(share: float, what: str) -> None:
        told.append((share, what))
        (tmp_path / "seen").touch()

    with Spread(apart) as spread:
        spread.run(tmp_path, [Job(f"tell {n}", f"{CALLS}:tell", {"number": n}) for n in range(2)], report)
    assert (0.25, "0 of 2 done") in told
    assert told[-1] == (1.0, "2 of 2 done")


def test_progress_of_one_job_is_its_own_words(tmp_path: Path) -> None:
    told: list[tuple[float, str]] = []
    (tmp_path / "seen").touch()
    Spread().run(tmp_path, [Job("tell", f"{CALLS}:tell", {"number": 1})], lambda *what: told.append(what))
    assert told == [(0.5, "half way"), (1.0, "done")]


FLOW = """
import sys
from pathlib import Path
from flows.spread.job import Job
from flows.spread.processes import Processes
from flows.spread.spread import Spread
if __name__ == "__main__":
    job = Job("hang", "tests.support.spread_jobs:hang_once", {"number": 4})
    Spread(Processes(1)).run(Path(sys.argv[1]), [job], lambda *_: None)
"""


def test_workers_end_with_a_flow_that_was_killed_and_the_next_does_their_job(tmp_path: Path) -> None:
    script = tmp_path / "flow.py"
    script.write_text(FLOW)
    folder = tmp_path / "jobs"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, str(script), str(folder)], stdout=subprocess.PIPE, env=environment) as flow:
        assert flow.stdout is not None
        assert int(flow.stdout.readline()) != flow.pid
        os.kill(flow.pid, signal.SIGKILL)
        assert flow.stdout.read() == b"", "the worker held the pipe; it is gone"
    job = Job("hang", f"{CALLS}:hang_once", {"number": 4})
    assert Spread().run(folder, [job], _quiet) == [{"number": 4}]
    assert began(folder) == ["4", "4"]


def test_no_worker_stays_behind(tmp_path: Path) -> None:
    runner = Processes(2)
    with Spread(runner) as spread:
        spread.run(tmp_path, _draws(2), _quiet)
        processes = [worker.process for worker in runner._workers]
    assert len(processes) == 2
    assert [process.exitcode for process in processes] == [0, 0]


def test_objects_instead_of_files_are_for_this_process_only(tmp_path: Path) -> None:
    job = Job("given", f"{CALLS}:given", {}, given={"data": 5})
    assert Spread().run(tmp_path, [job], _quiet) == [{"value": 5}]
    assert Spread().run(tmp_path, [replace(job, given={"data": 6})], _quiet) == [{"value": 6}], "never another's"
    with Spread(Processes(1)) as spread, pytest.raises(StorageError, match=r"no room left.*or run the jobs here"):
        spread.run(tmp_path, [job], _quiet)


def test_worker_that_sees_another_file_or_none_says_so(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(b"123")
    order = order_for(Job("length", f"{CALLS}:length", {}, {"data": data}), tmp_path / "jobs")
    data.write_bytes(b"1234")
    with pytest.raises(StepError, match=r"job length on .*its data .* is another file than the flow's"):
        do(order, _quiet)
    data.unlink()
    assert "workers need the state folder at the flow's path" in str(attempted(order.to_json()))
    other = replace(order, version="0.0.1", files={})
    assert "cannot work for a flow of 0.0.1; install the same" in str(attempted(other.to_json()))


def test_kinds_are_read() -> None:
    assert Kind.parse("here") == Kind()
    assert Kind.parse("processes") == Kind("processes")
    assert Kind.parse("processes:3") == Kind("processes", 3)
    assert Kind.parse("dask") == Kind("dask")
    assert Kind.parse("dask:tcp://host:8786") == Kind("dask", address="tcp://host:8786")
    assert isinstance(Kind.parse("processes:3").runner(), Processes)
    assert isinstance(Kind.parse("dask").runner(), Cluster)
    assert isinstance(Kind.parse("here").runner(), Here)


@pytest.mark.parametrize("text", ["", "ray", "here:2", "processes:0", "processes:", "processes:-1", "dask:", "dask:4"])
def test_kinds_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(FlowError, match="is no way to spread jobs; write here, processes"):
        Kind.parse(text)


def test_without_the_extra_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(cluster, "import_module", missing)
    with pytest.raises(StepError, match="install the extra `scale`"):
        Kind.parse("dask").runner()


SCHEDULER = """
import threading
from distributed import LocalCluster
if __name__ == "__main__":
    there = {"protocol": "tcp", "dashboard_address": "127.0.0.1:0"}
    made = LocalCluster(n_workers=1, threads_per_worker=1, processes=False, **there)
    print(made.scheduler_address, flush=True)
    threading.Event().wait()
"""


def test_a_scheduler_that_dies_under_a_job_is_told(tmp_path: Path) -> None:
    script = tmp_path / "scheduler.py"
    script.write_text(SCHEDULER)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, env=environment, text=True) as child:
        assert child.stdout is not None
        runner = Cluster(child.stdout.readline().strip())
        with Spread(runner) as spread, pytest.raises(StepError, match="job tell: the Dask scheduler is gone"):
            spread.run(tmp_path / "jobs", [Job("tell", f"{CALLS}:tell", {"number": 1})], lambda *_: child.kill())


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cluster, "CONNECT_S", 1)
    with (
        Spread(Cluster("tcp://127.0.0.1:9")) as spread,
        pytest.raises(StepError, match=r"answers at tcp://127.0.0.1:9"),
    ):
        spread.run(tmp_path, _draws(1), _quiet)
