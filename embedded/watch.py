"""The watch over the children: one thread that notices deaths, says so, and starts them again after a pause."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from embedded.child import Child, ChildSpec, ChildState
from embedded.errors import ChildFailed
from embedded.limits import LIMITS

Say = Callable[[str], None]


class Watch:
    """Children by name, and the thread that looks after them. `changed` is called after every start or death.

    `asked` says whether somebody asked to end meanwhile; then a start is given up.
    """

    def __init__(
        self,
        logs: Path,
        cwd: Path,
        say: Say,
        changed: Callable[[], None],
        asked: Callable[[], bool] = lambda: False,
    ) -> None:
        self.children: dict[str, Child] = {}
        self._logs = logs
        self._cwd = cwd
        self._say = say
        self._changed = changed
        self._asked = asked
        self._lock = threading.RLock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="edgeloop-watch", daemon=True)

    def begin(self) -> None:
        """Start watching."""
        self._thread.start()

    def add(self, spec: ChildSpec) -> Child:
        """Start a child and watch it."""
        child = Child(spec, self._logs / f"{spec.name}.log", self._cwd)
        with self._lock:
            self.children[spec.name] = child
            child.start()
        self._say(f"{spec.name} started (pid {child.pid})")
        self._changed()
        return child

    def wait_ready(self, name: str) -> float:
        """Wait until a child says it is ready; returns the seconds. Raises ChildFailed with the end of its log."""
        child, begun = self.children[name], time.monotonic()
        while not child.spec.ready():
            if self._end.is_set() or self._asked():
                raise ChildFailed(f"{name} was given up while it started, because another child failed or we stop")
            late = time.monotonic() - begun > LIMITS.ready_s
            if late or child.recent_deaths() >= LIMITS.start_tries:
                what = f"not ready after {LIMITS.ready_s:.0f} s" if late else "ended again and again"
                raise ChildFailed(f"{name} {what}; the end of {child.log}:\n{child.log_tail()}")
            time.sleep(LIMITS.poll_s)
        spent = time.monotonic() - begun
        self._say(f"{name} ready after {spent:.1f} s")
        return spent

    def give_up(self) -> None:
        """End every `wait_ready` at once, and start nothing again."""
        self._end.set()

    def stop(self, groups: tuple[tuple[str, ...], ...]) -> None:
        """End all children in order, each group at once; then end the watch."""
        with self._lock:
            self._end.set()
        for group in groups:
            self._stop_group([self.children[name] for name in group if name in self.children])
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(5)
        self._changed()

    def _stop_group(self, group: list[Child]) -> None:
        with self._lock:
            for child in group:
                child.ask_to_stop()
        deadline = time.monotonic() + LIMITS.stop_s
        for child in group:
            how = "stopped" if child.finish(deadline) else f"killed, it did not stop within {LIMITS.stop_s:.0f} s"
            self._say(f"{child.spec.name} {how}")

    def _run(self) -> None:
        looks = 0
        while not self._end.wait(LIMITS.poll_s):
            with self._lock:
                if self._end.is_set():
                    return
                for child in self.children.values():
                    self._look_at(child)
            looks += 1
            if looks % LIMITS.looks_between_log_checks == 0:
                for child in self.children.values():
                    child.trim_log()

    def _look_at(self, child: Child) -> None:
        code = child.died()
        if code is not None:
            pause = child.put_off()
            how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
            often = f", the {child.recent_deaths()}th time" if child.recent_deaths() > LIMITS.restarts else ""
            self._say(f"{child.spec.name} {how}{often}; starting it again in {pause:.1f} s (see {child.log})")
            self._changed()
        elif child.state is ChildState.PAUSED and time.monotonic() >= child.start_at:
            try:
                child.start()
            except OSError as error:
                pause = child.put_off()
                self._say(f"{child.spec.name} cannot be started: {error}; trying again in {pause:.1f} s")
                return
            self._say(f"{child.spec.name} started again (pid {child.pid})")
            self._changed()
