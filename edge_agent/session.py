"""A running agent: the frame loop at its pace, a thread for the platform, a status file, an orderly end."""

from __future__ import annotations

import fcntl
import json
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from edge_agent.agent import Agent
from edge_agent.diagnostics import answer_request
from edge_agent.disk import Disk
from edge_agent.errors import ConfigError, VideoError
from edge_agent.rest import rest_s

log = logging.getLogger(__name__)
STATUS_FILE = "status.json"
LOCK_FILE = "agent.lock"
STATUS_S = 2.0
SYNC_END_S = 20.0
ASKED_S = 1.0
"""How often the agent looks whether somebody asks for diagnostics."""
OWING_S = 0.05
"""Rest between two writes of what was decided, so that a disk that refuses is not asked all the time."""


@contextmanager
def sole_owner(folder: Path) -> Iterator[None]:
    """Hold a state folder for this process. Raises ConfigError when another agent has it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK_FILE).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigError(f"{folder} is in use by another agent; stop it or give another --state-dir") from error
        yield


class Session:
    """Runs one agent until its source ends, `max_frames` are played, or `stop` is set."""

    def __init__(
        self, agent: Agent, folder: Path, fps: float, max_frames: int, sync_s: float, device_id: str = ""
    ) -> None:
        self._agent, self._folder, self._device_id = agent, folder, device_id
        self._conveyor = agent.conveyor  # it has the pace and counts the frames
        self._fps, self._max_frames = (0.0, 0) if self._conveyor else (fps, max_frames)
        self._sync_s = sync_s
        self._disk = Disk(durable=False)
        self.stop = threading.Event()
        self._looked = threading.Event()

    def run(self, progress: Callable[[int], None] = lambda frames: None) -> dict[str, object]:
        """Play to the end; return the last status. Raises VideoError when the source is damaged. An end by any other
        error is a crash, and the next start tells it.
        """
        talking = [
            threading.Thread(target=task, name=name, daemon=True)
            for task, name in ((self._look, "platform"), (self._send, "mail"))
        ]
        for thread in talking:
            thread.start()
        orderly = False
        try:
            self._play(progress)
            orderly = True
        except (VideoError, KeyboardInterrupt):
            orderly = True
            raise
        finally:
            self.stop.set()
            self._agent.end_soon()
            self._agent.owing.set()
            self._looked.set()
            for thread in talking:
                thread.join(SYNC_END_S)
            self._agent.close(orderly)
            self._agent.flush()
            self._write_status()
        return self._agent.status()

    def _play(self, progress: Callable[[int], None]) -> None:
        began, written, frames = time.monotonic(), 0.0, 0
        while self._goes_on(frames):
            if not self._agent.step():
                return
            frames += 1
            progress(frames)
            now = time.monotonic()
            if now - written >= STATUS_S:
                written = now
                self._write_status()
            if self._fps:
                began = self._keep_pace(began, frames)

    def _goes_on(self, frames: int) -> bool:
        """Tell whether to play another frame; what a conveyor has read is played to its end."""
        if self._conveyor is None:
            return not self.stop.is_set() and (not self._max_frames or frames < self._max_frames)
        if self.stop.is_set():
            self._conveyor.end()
        return True

    def _keep_pace(self, began: float, frames: int) -> float:
        """Wait for the next frame's time; a device that is late starts afresh instead of catching up."""
        late = time.monotonic() - (began + frames / self._fps)
        if late < 0:
            self.stop.wait(-late)
        return began + late if late > 1.0 else began

    def _look(self) -> None:
        while not self.stop.is_set():
            began = time.monotonic()
            self._guarded(self._agent.look)
            self._looked.set()
            self._rest(rest_s(self._sync_s * random.uniform(0.9, 1.1), time.monotonic() - began))

    def _send(self) -> None:
        """Send after every look; a report that waits for its answer holds up no look."""
        while self._looked.wait() and not self.stop.is_set():
            self._looked.clear()
            self._guarded(self._agent.send)

    @staticmethod
    def _guarded(task: Callable[[], None]) -> None:
        try:
            task()
        except Exception:  # a bug here must not end the call
            log.exception("a platform thread failed; it tries again")

    def _rest(self, seconds: float) -> None:
        """Wait for the next talk; what the frame loop decides meanwhile is written at once."""
        until = time.monotonic() + seconds
        while not self.stop.is_set() and (left := until - time.monotonic()) > 0:
            answer_request(self._agent, self._folder, self._device_id)
            if self._agent.owing.wait(min(left, ASKED_S)) and not self.stop.is_set():
                self._agent.settle()
                self.stop.wait(OWING_S)

    def _write_status(self) -> None:
        try:
            body = json.dumps({**self._agent.status(), "written": time.time()}).encode()
            self._disk.replace(self._folder / STATUS_FILE, body)
        except OSError as error:
            log.warning("status not written: %s", error)
