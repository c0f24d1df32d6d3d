"""A flow `retrain` in a process of its own that SIGKILL may take at any place.

    python -m tests.support.flow_child STATE KEY SETTINGS_JSON KILL

KILL is empty, `STEP:middle` (at the first sign of progress of that step from a half on) or `STEP:end` (when the
step's work is done and its result is not written yet: the worst moment for whatever the step did outside). The process
kills itself as the out-of-memory killer would: no handler, no flush, no `finally`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from flows.platform import Platform
from flows.retrain import run_retrain
from flows.run_folder import Json, RunFolder
from flows.steps.context import RetrainSettings


def main() -> None:
    """Run the flow and print its steps' results as JSON."""
    state, key, settings, kill = Path(sys.argv[1]), sys.argv[2], settings_of(sys.argv[3]), sys.argv[4]
    watch = Killer(kill)
    result = run_retrain(key, state, Platform.from_environment(), settings, watch.progress)
    print(json.dumps(result["steps"]))


def settings_of(text: str) -> RetrainSettings:
    """Settings from JSON, lists as tuples."""
    raw = json.loads(text)
    if raw.get("steps"):
        raw["steps"] = tuple(raw["steps"])
    if raw.get("profiles"):
        raw["profiles"] = tuple((rows, columns) for rows, columns in raw["profiles"])
    if raw.get("targets"):
        raw["targets"] = tuple(raw["targets"])
    return RetrainSettings(**raw)


class Killer:
    """Ends this process at the asked place."""

    def __init__(self, place: str) -> None:
        self._step, _, self._moment = place.partition(":")
        self._now = ""
        whole: Callable[[RunFolder, str, Callable[[], Json]], Json] = RunFolder.step

        def step(folder: RunFolder, name: str, make: Callable[[], Json]) -> Json:
            self._now = name

            def made() -> Json:
                value = make()
                if (name, "end") == (self._step, self._moment):
                    die()
                return value

            return whole(folder, name, made)

        RunFolder.step = step  # type: ignore[method-assign]  # the place that a kill is wanted at

    def progress(self, what: str, share: float) -> None:
        """The flow's progress."""
        inside = what not in (self._now, self._step)  # the flow says "train 1.0" when the step is over
        if self._moment == "middle" and self._now == self._step and inside and share >= 0.5:
            die()


def die() -> None:
    """What `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
