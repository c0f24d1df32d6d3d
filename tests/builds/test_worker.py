"""A real Celery worker, killed in the middle of its work."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func

from services.builds import tasks
from services.builds.models import BuildRow
from services.builds.service import TOPIC
from services.kit.database import transaction
from services.kit.outbox import dispatch
from tests.builds.conftest import Studio

ROOT = Path(__file__).resolve().parents[2]
LEASE_S = 3


@contextmanager
def worker(folder: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of the queue `builds` in a process group of its own, which is killed at the end."""
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "services.worker",
        "worker",
        "-Q",
        "builds",
        "-P",
        "solo",
        "-n",
        f"w{time.monotonic_ns()}@test",
    ]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "EDGELOOP_BUILDS_LEASE_S": str(LEASE_S), **environment}
    with (folder / "worker.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=variables, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        with_group(process, signal.SIGKILL)


def with_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal a worker and the processes that it started, as a power cut would end them all."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return
    process.wait(20)


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """Poll until the condition gives something."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.2)
    raise AssertionError(f"{what} did not happen within {seconds:g} s")


def _held(build_id: str, state: str) -> bool:
    with transaction() as session:
        row = session.get_one(BuildRow, build_id)
        return row.state == state and row.lease_owner is not None


def _finished(studio: Studio, build_id: str) -> dict[str, Any] | None:
    dispatch((TOPIC,))
    with transaction() as session:  # stand in for the time that the sweep waits before it looks
        session.get_one(BuildRow, build_id).touched_at = func.now() - func.make_interval(0, 0, 0, 0, 1)
    tasks.sweep()
    build = studio.get(build_id)
    return build if build["finished"] is not None else None


@pytest.mark.slow
def test_a_build_whose_worker_is_killed_is_finished_by_the_next(studio: Studio, tmp_path: Path) -> None:
    stalled = shlex.join([sys.executable, "-c", "import time; time.sleep(120)"])
    build_id = studio.send({"release_version": "3.0"}).json()["id"]
    assert dispatch((TOPIC,)) >= 1
    with worker(tmp_path, EDGELOOP_BUILDS_LAB_COMMAND=stalled) as first:
        wait_for(lambda: dispatch((TOPIC,)) or _held(build_id, "gating"), "the gate")
        wait_for(lambda: _held(build_id, "gating"), "the gate")
        with_group(first, signal.SIGKILL)
    assert studio.get(build_id)["state"] == "gating"
    with worker(tmp_path):
        build = wait_for(lambda: _finished(studio, build_id), "the second worker's verdict", 90)
    assert build["state"] == "passed", build["message"]
    assert studio.get(build_id)["verdict"]["passed"] is True


@pytest.mark.slow
def test_a_build_killed_while_compiling_is_compiled_again(studio: Studio, tmp_path: Path) -> None:
    build_id = studio.send({"release_version": "3.1"}).json()["id"]
    dispatch((TOPIC,))
    with worker(tmp_path) as first:
        wait_for(lambda: _held(build_id, "compiling"), "the compiler")
        with_group(first, signal.SIGKILL)
    assert studio.get(build_id)["state"] == "compiling"
    with worker(tmp_path):
        build = wait_for(lambda: _finished(studio, build_id), "the second worker's verdict", 90)
    assert build["state"] == "passed", build["message"]
