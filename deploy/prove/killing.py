"""One service after another is killed while the loop runs, each at a moment at which it works."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from demo.view import PHASES
from deploy.prove.composition import Composition
from deploy.prove.engine import Engine, EngineError, until

MOMENTS = (
    ("healthy days", "redis"),
    ("bad days", "postgres"),
    ("bad days", "worker"),
    ("drift alarm", "prefect"),
    ("retrain", "mlflow"),
    ("retrain", "exporter"),
    ("retrain", "beat"),
    ("retrain", "agent-1-office"),
    ("retrain", "agent-2-home"),
    ("retrain", "agent-3-mobile"),
    ("retrain", "flows"),
    ("retrain", "fleet"),
    ("gate", "worker-builds"),
    ("rollout", "api"),
    ("rollout", "objectstore"),
)
PAUSE_S = 8.0
POLICY_S, BACK_S = 20.0, 240.0
LINE = re.compile(r"^\[ *[\d.]+ s\] (?:day \d+ [\d:]+ x[\d,]+ )?(.*)$")


@dataclass(frozen=True)
class Kill:
    """One kill: in which phase, by whom the container was started again, seconds until it was healthy."""

    service: str
    phase: str
    started_by: str
    back_s: float


def services_to_kill(composition: Composition) -> set[str]:
    """Every service that lives on; jobs end by themselves and are no part of it."""
    return {service.name for service in composition.services if not service.is_job}


def phase_of(log: str) -> str:
    """The last phase that the demo's log tells of; empty before the first."""
    found = ""
    for line in log.splitlines():
        told = LINE.match(line)
        if told is not None:
            words = told[1].strip()
            found = next((phase for phase in PHASES if words == phase or words.startswith(f"{phase}: ")), found)
    return found


def due(phase: str, wanted: str) -> bool:
    """Whether a kill meant for the phase `wanted` may happen in `phase`: then, or later."""
    return bool(phase) and PHASES.index(phase) >= PHASES.index(wanted)


class Killer:
    """Carries out MOMENTS; `step` does at most one kill."""

    def __init__(self, engine: Engine, composition: Composition, say: Callable[[str], None]) -> None:
        missing = services_to_kill(composition) ^ {name for _, name in MOMENTS}
        if missing:
            raise EngineError(f"no moment is set for, or there is no service: {', '.join(sorted(missing))}")
        self._engine, self._composition, self._say = engine, composition, say
        self._waiting = list(MOMENTS)
        self._last = 0.0
        self.done: list[Kill] = []

    @property
    def finished(self) -> bool:
        """Whether everything was killed once."""
        return not self._waiting

    def step(self, phase: str) -> None:
        """Kill the next service if its moment has come. Raises EngineError when it does not come back."""
        if not self._waiting or time.monotonic() - self._last < PAUSE_S or not due(phase, self._waiting[0][0]):
            return
        _, name = self._waiting.pop(0)
        before = self._engine.pid(name)
        began = time.monotonic()
        self._engine.kill(name)
        started_by = "its restart policy"
        try:
            until(lambda: self._engine.pid(name) not in (0, before), name, POLICY_S, 0.5)
        except EngineError:
            self._engine.podman("start", f"prove-{name}")
            started_by = "the runner"
        if self._composition.service(name).health is not None:
            until(lambda: self._engine.healthy(name), f"{name} to be healthy again", BACK_S)
        self._last = time.monotonic()
        self.done.append(Kill(name, phase, started_by, round(self._last - began, 1)))
        words = f"killed {name} in phase {phase}; {started_by} brought it back"
        self._say(f"{words}, healthy after {self.done[-1].back_s} s")
