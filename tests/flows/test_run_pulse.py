"""One process does a run, it beats, and what it leaves tells how it ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flows.errors import BusyError, FlowError, NothingToDo, RefusedError
from flows.run_pulse import RunPulse, RunState, read_beat, runs, to_resume

HOLD = """
import sys, time
from pathlib import Path
from flows.run_pulse import RunPulse
with RunPulse(Path(sys.argv[1]), every_s=0.05) as pulse:
    pulse.told("train", 0.25)
    print("in", flush=True)
    time.sleep(60)
"""


def _held(folder: Path) -> subprocess.Popen[str]:
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "in\n"
    return child


def test_second_process_is_told_who_does_the_run_and_kill_frees_it(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "r"
    with _held(folder) as child:
        with pytest.raises(BusyError, match=f"being done by process {child.pid}"), RunPulse(folder):
            pass
        beat = read_beat(folder)
        assert beat is not None
        assert (beat.state, beat.pid) == (RunState.RUNNING, child.pid)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    found = read_beat(folder)
    assert found is not None
    assert (found.state, found.step, found.share) == (RunState.STOPPED, "train", 0.25)
    assert to_resume(tmp_path, 60.0) == "r"
    with RunPulse(folder):
        pass
    assert to_resume(tmp_path, 60.0) is None


def test_it_beats_also_while_a_step_says_nothing(tmp_path: Path) -> None:
    with RunPulse(tmp_path / "r", every_s=0.02):
        first = read_beat(tmp_path / "r")
        assert first is not None
        deadline = time.monotonic() + 10.0
        while (now := read_beat(tmp_path / "r")) is not None and now.at <= first.at and time.monotonic() < deadline:
            time.sleep(0.01)
        assert now is not None
        assert now.at > first.at
        assert now.moved == first.moved, "alive, but no further"


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (RefusedError("gate"), RunState.REFUSED),
        (NothingToDo("covered"), RunState.NOTHING),
        (FlowError("disk"), RunState.FAILED),
    ],
)
def test_how_a_run_ended_is_kept(tmp_path: Path, error: Exception, state: RunState) -> None:
    with pytest.raises(type(error)), RunPulse(tmp_path / "runs" / "r"):
        raise error
    (beat,) = runs(tmp_path)
    assert (beat.state, beat.message) == (state, str(error))
    assert (to_resume(tmp_path, 60.0) == "r") is (state is RunState.FAILED)


def test_damaged_heartbeat_is_named(tmp_path: Path) -> None:
    (tmp_path / "heartbeat.json").write_text('{"state": "dancing"}')
    with pytest.raises(FlowError, match=r"heartbeat\.json cannot be read"):
        read_beat(tmp_path)
    (tmp_path / "heartbeat.json").write_text(json.dumps([]))
    with pytest.raises(FlowError, match=r"heartbeat\.json cannot be read"):
        read_beat(tmp_path)
