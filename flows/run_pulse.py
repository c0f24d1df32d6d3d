"""Who is doing a run, and how far it is: a lock that dies with its process, and a heartbeat that a person can read.

`heartbeat.json` in the run's folder: process, state, step, share of that step, when the process last lived (`at`) and
when it last got further (`moved`). A process that was killed leaves `running` behind and the lock free: `stopped`.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType

from flows.errors import BusyError, FlowError, NothingToDo, RefusedError

BEAT_S = 5.0
_BEAT, _LOCK = "heartbeat.json", ".lock"


class RunState(StrEnum):
    """How a run stands."""

    RUNNING = "running"
    STOPPED = "stopped"
    FINISHED = "finished"
    REFUSED = "refused"
    NOTHING = "nothing-to-do"
    FAILED = "failed"


RESUMABLE = (RunState.STOPPED, RunState.FAILED)


@dataclass(frozen=True)
class Beat:
    """A heartbeat. `share` is that of the step, 0..1; `at` and `moved` are Unix seconds."""

    key: str
    pid: int
    state: RunState
    step: str = ""
    share: float = 0.0
    at: float = 0.0
    moved: float = 0.0
    message: str = ""


class RunPulse:
    """Holds a run for this process and beats until it is left; `told` says how far it is.

    Raises BusyError on entry when another living process holds the run.
    """

    def __init__(self, folder: Path, every_s: float = BEAT_S) -> None:
        self._folder, self._every = folder, every_s
        self._lock = -1
        self._stop = threading.Event()
        self._writing = threading.Lock()
        self._beat = Beat(folder.name, os.getpid(), RunState.RUNNING)
        self._thread = threading.Thread(target=self._keep_beating, name="heartbeat", daemon=True)

    def __enter__(self) -> RunPulse:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise BusyError(f"run {self._folder.name} is being done by {_holder(self._folder)}; wait for it") from error
        self._write(RunState.RUNNING)
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        try:
            self._write(_state_of(error), str(error) if error else "")
        finally:
            os.close(self._lock)

    def told(self, step: str, share: float) -> None:
        """Note that the run got further."""
        now = time.time()
        with self._writing:
            last = self._beat
            self._beat = Beat(last.key, last.pid, RunState.RUNNING, step, round(share, 3), last.at, now)
        if now - last.at >= min(1.0, self._every) or step.partition(":")[0] != last.step.partition(":")[0]:
            self._write(RunState.RUNNING)

    def _keep_beating(self) -> None:
        while not self._stop.wait(self._every):
            self._write(RunState.RUNNING)

    def _write(self, state: RunState, message: str = "") -> None:
        with self._writing:
            last = self._beat
            self._beat = Beat(last.key, last.pid, state, last.step, last.share, time.time(), last.moved, message)
            temporary = self._folder / f".{_BEAT}.part"
            try:
                temporary.write_text(json.dumps(asdict(self._beat)))
                temporary.replace(self._folder / _BEAT)
            except OSError:
                return  # a full disk stops the run where its results are written, not here


def read_beat(folder: Path) -> Beat | None:
    """The state of the run in `folder`, or None where no run ever was. A beat without its process is `stopped`."""
    try:
        raw = json.loads((folder / _BEAT).read_text())
        beat = Beat(**{**raw, "state": RunState(raw["state"])})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise FlowError(f"{folder / _BEAT} cannot be read ({error}); remove it") from error
    if beat.state is RunState.RUNNING and not _held(folder):
        return Beat(**{**asdict(beat), "state": RunState.STOPPED})
    return beat


def runs(state: Path) -> list[Beat]:
    """Every run below the state folder that left a heartbeat, newest first."""
    found = [read_beat(folder) for folder in (state / "runs").glob("*") if folder.is_dir()]
    return sorted((beat for beat in found if beat is not None), key=lambda beat: -beat.at)


def to_resume(state: Path, within_s: float) -> str | None:
    """Key of the newest run that was killed or failed in the last `within_s` seconds."""
    since = time.time() - within_s
    return next((beat.key for beat in runs(state) if beat.state in RESUMABLE and beat.at >= since), None)


def _state_of(error: BaseException | None) -> RunState:
    if error is None:
        return RunState.FINISHED
    if isinstance(error, RefusedError):
        return RunState.REFUSED
    return RunState.NOTHING if isinstance(error, NothingToDo) else RunState.FAILED


def _held(folder: Path) -> bool:
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _holder(folder: Path) -> str:
    try:
        return f"process {json.loads((folder / _BEAT).read_text())['pid']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
