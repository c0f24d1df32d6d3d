"""One supervised child process: start, watch, start again after a pause, stop in order.

A child is its own process group, so Ctrl-C in the terminal reaches the supervisor alone and nothing a child started
is left behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import psutil

from embedded.limits import LIMITS


class ChildState(StrEnum):
    """Where a child stands."""

    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


@dataclass(frozen=True)
class ChildSpec:
    """What to run. `stop_signal` asks it to end in order; `before` runs before each start."""

    name: str
    command: list[str]
    environment: Mapping[str, str]
    ready: Callable[[], bool]
    stop_signal: int = signal.SIGTERM
    run_as: Mapping[str, Any] = field(default_factory=dict)  # Any: options of subprocess
    before: Callable[[], None] = lambda: None


class Child:
    """A child in the supervisor's hands."""

    def __init__(self, spec: ChildSpec, log: Path, cwd: Path) -> None:
        self.spec = spec
        self.log = log
        self.state = ChildState.WAITING
        self.restarts = 0
        self.start_at = 0.0
        self.started_at = 0.0
        self._cwd = cwd
        self._deaths: list[float] = []
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Pid while it runs."""
        return self._process.pid if self._process is not None and self.state is ChildState.RUNNING else None

    def start(self) -> None:
        """Start it now; its output goes to its log."""
        self.spec.before()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.spec.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._cwd,
                env=dict(self.spec.environment),
                start_new_session=True,
                **self.spec.run_as,
            )
        self.started_at = time.monotonic()
        self.state = ChildState.RUNNING

    def died(self) -> int | None:
        """Its exit code if it ended by itself since the last look, else None."""
        if self.state is not ChildState.RUNNING or self._process is None:
            return None
        return self._process.poll()

    def put_off(self) -> float:
        """Plan the next start after a death; returns the pause in seconds, longer the more often it died lately."""
        now = time.monotonic()
        self._deaths = [moment for moment in self._deaths if now - moment < LIMITS.window_s] + [now]
        pause = min(LIMITS.longest_pause_s, LIMITS.first_pause_s * 2 ** (len(self._deaths) - 1))
        self.restarts += 1
        self.start_at = now + pause
        self.state = ChildState.PAUSED
        self._end_group()
        self.spec.before()  # a mark that says "ready" must not outlive the process
        return float(pause)

    def recent_deaths(self) -> int:
        """Deaths within the window."""
        now = time.monotonic()
        return sum(now - moment < LIMITS.window_s for moment in self._deaths)

    def kill(self) -> None:
        """`kill -9`, for tests of the supervisor."""
        if self._process is not None:
            self._process.kill()

    def ask_to_stop(self) -> None:
        """Send the signal for an orderly end."""
        was_running = self.state is ChildState.RUNNING
        self.state = ChildState.STOPPED
        if was_running and self._process is not None and self._process.poll() is None:
            self._process.send_signal(self.spec.stop_signal)

    def finish(self, deadline: float) -> bool:
        """Wait for the end until `deadline`, then kill; False when it had to be killed."""
        if self._process is None:
            return True
        try:
            self._process.wait(max(0.1, deadline - time.monotonic()))
            orderly = True
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            orderly = False
        self._end_group()
        return orderly

    def trim_log(self) -> None:
        """Empty a log that grew too long (it is written in append mode, so the child goes on at its start)."""
        with contextlib.suppress(OSError):
            if self.log.stat().st_size > LIMITS.log_bytes:
                os.truncate(self.log, 0)

    def log_tail(self, characters: int = 1500) -> str:
        """The end of its log."""
        try:
            return self.log.read_text(errors="replace")[-characters:]
        except OSError:
            return ""

    def describe(self) -> dict[str, Any]:  # Any: JSON
        """Its entry in `children.json`."""
        created = None
        if self.pid is not None:
            with contextlib.suppress(psutil.Error):
                created = psutil.Process(self.pid).create_time()
        return {"state": self.state.value, "pid": self.pid, "created": created, "restarts": self.restarts}

    def _end_group(self) -> None:
        """Kill what the child left in its process group."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)


def end_leftovers(children: Mapping[str, Any]) -> list[str]:  # Any: JSON of children.json
    """End children that a killed supervisor left behind; returns their names.

    A pid counts only when the process was created when `children.json` says, so a reused pid is never touched.
    """
    found = {name: process for name, entry in children.items() if (process := _same_process(entry)) is not None}
    for process in found.values():
        with contextlib.suppress(psutil.Error):
            process.send_signal(signal.SIGINT if process.name() == "postgres" else signal.SIGTERM)
    _, alive = psutil.wait_procs(list(found.values()), timeout=LIMITS.stop_s)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()
    for process in found.values():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    return sorted(found)


def _same_process(entry: Mapping[str, Any]) -> psutil.Process | None:
    pid, created = entry.get("pid"), entry.get("created")
    if not pid or created is None:
        return None
    try:
        process = psutil.Process(pid)
        return process if abs(process.create_time() - created) < 1.0 else None
    except psutil.Error:
        return None
