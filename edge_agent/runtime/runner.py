"""Serves every frame: the backend that the healing machine picks, the next one in the same frame when it
fails.

Invariants: `upscale` returns an image for every frame that fits, whatever the backends do; errors, late
frames and frames on the CPU are counted; loading a bundle is all or nothing for the primary backend; a net that keeps
states never sees those of a frame further back than `MISSED` frames that another backend served.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from contracts.bundle import Bundle
from contracts.clock import Clock
from edge_agent.runtime import bicubic
from edge_agent.runtime.backend import (
    Backend,
    FrameUnfit,
    LiteBackend,
    Observation,
    Pixels,
    Span,
    StreamBackend,
    Upscaled,
)
from edge_agent.runtime.healing import Choice, Event, Healing, HealingLimits, State, after, plan
from edge_agent.runtime.trace import FrameTrace, TraceRing

if TYPE_CHECKING:
    from typing_extensions import Buffer

log = logging.getLogger(__name__)
MISSED = 1
Result = TypeVar("Result", Upscaled, Observation)


@dataclass(frozen=True)
class Counts:
    """What happened since the start."""

    frames: int = 0
    late: int = 0
    errors: int = 0
    on_cpu: int = 0
    plain: int = 0
    lite: int = 0
    observed: int = 0
    unobserved: int = 0


@dataclass(frozen=True)
class Served(Generic[Result]):
    """A frame's result, who made it, and how many backends failed at it. No result: only for observations."""

    result: Result | None
    choice: Choice
    errors: int
    late: bool


class Runner:
    """Two backends, a healing machine, a trace. Not for several threads at once."""

    def __init__(
        self,
        primary: Backend,
        fallback: Backend | None,
        clock: Clock,
        *,
        budget_ms: float = 33.3,
        limits: HealingLimits | None = None,
        trace: TraceRing | None = None,
    ) -> None:
        self._backends = {Choice.PRIMARY: primary}
        if fallback is not None:
            self._backends[Choice.FALLBACK] = fallback
        self._clock = clock
        self._budget_ms = budget_ms
        self._limits = limits or HealingLimits()
        self.trace = trace or TraceRing()
        self.healing = Healing()
        self.counts = Counts()
        self._number = 0
        self._upscales = 0
        self._upscaled: dict[Choice, int] = {}

    @property
    def state(self) -> State:
        """Where the healing machine stands."""
        return self.healing.state

    @property
    def weights(self) -> Sequence[Buffer]:
        """Constants of the programs that are loaded, where a backend shows them."""
        return [part for backend in self._backends.values() for part in getattr(backend, "weights", ())]

    @property
    def sizes(self) -> Sequence[tuple[int, int]]:
        """Frame sizes of the bundle."""
        return self._backends[Choice.PRIMARY].sizes

    def load(self, bundle: Bundle, device_class: str) -> None:
        """Take this bundle on every backend, and start healthy; raises what `Backend.load` raises."""
        for backend in reversed(self._backends.values()):
            backend.load(bundle, device_class)
        self.healing = Healing()
        self.begin()

    def begin(self) -> None:
        """Begin a new stream: what the nets keep from frame to frame is forgotten."""
        self._upscaled.clear()

    def lighten(self, reason: str) -> None:
        """Run the smaller engine of the bundle from the next frame on, or the full one when `reason` is empty."""
        for backend in self._backends.values():
            if isinstance(backend, LiteBackend):
                backend.lighten(reason)

    def upscale(self, frame: Pixels, trace: int = 0) -> Served[Upscaled]:
        """Return the frame at twice its size; raises FrameUnfit only. `trace` is the frame's id in traces."""
        self._upscales += 1
        served = self._serve("upscale", lambda backend: self._upscale(backend, frame), trace)
        if served.result is None:
            served = replace(served, result=Upscaled(bicubic.double(frame), None), choice=Choice.LAST_RESORT)
        counts = self.counts
        self.counts = replace(
            counts,
            frames=counts.frames + 1,
            late=counts.late + served.late,
            errors=counts.errors + served.errors,
            on_cpu=counts.on_cpu + (served.choice is Choice.FALLBACK),
            plain=counts.plain + (served.choice is Choice.LAST_RESORT),
            lite=counts.lite + (served.result is not None and served.result.lite),
        )
        return served

    def _upscale(self, backend: Backend, frame: Pixels) -> Upscaled:
        """Upscale on a backend, from the beginning when what it kept is too old."""
        choice = next(choice for choice, one in self._backends.items() if one is backend)
        before = self._upscaled.get(choice)
        if isinstance(backend, StreamBackend) and (before is None or self._upscales - before > 1 + MISSED):
            backend.reset()
        result = backend.upscale(frame)
        self._upscaled[choice] = self._upscales
        return result

    def observe(self, frame: Pixels, trace: int = 0) -> Served[Observation]:
        """Return what the quality net sees, or no result when no backend could; raises FrameUnfit only."""
        served = self._serve("observe", lambda backend: backend.observe(frame), trace)
        counts = self.counts
        seen = served.result is not None
        self.counts = replace(
            counts,
            observed=counts.observed + seen,
            unobserved=counts.unobserved + (not seen),
            errors=counts.errors + served.errors,
        )
        return served

    def _serve(self, work: str, attempt: Callable[[Backend], Result], trace: int) -> Served[Result]:
        began = self._clock.now()
        served: Served[Result] = Served(None, Choice.LAST_RESORT, 0, late=False)
        for choice in plan(self.healing, began):
            backend = self._backends.get(choice)
            if backend is None:
                continue
            result = self._try(choice, backend, attempt)
            if result is not None:
                late = result.simulated_ms is not None and result.simulated_ms > self._budget_ms
                served = Served(result, choice, served.errors, late)
                break
            served = replace(served, errors=served.errors + 1)
        self._record(work, began, served, trace)
        return served

    def _try(self, choice: Choice, backend: Backend, attempt: Callable[[Backend], Result]) -> Result | None:
        try:
            result = attempt(backend)
        except FrameUnfit:
            raise
        except Exception as error:  # whatever a backend does, the call goes on
            self._note(_FAILED[choice])
            log.warning("backend %s failed at a frame: %s", backend.name, error)
            return None
        self._note(_OK[choice])
        return result

    def _note(self, event: Event) -> None:
        before = self.healing.state
        self.healing = after(self.healing, event, self._clock.now(), self._limits)
        if self.healing.state is not before:
            log.warning("healing: %s -> %s after %s", before.value, self.healing.state.value, event.value)

    def _record(self, work: str, began: float, served: Served[Result], trace: int) -> None:
        if not self.trace.on:
            return
        anomalies = []
        if served.errors:
            anomalies.append(f"{served.errors} backend errors")
        if served.late:
            anomalies.append("late")
        if served.choice is not Choice.PRIMARY:
            anomalies.append(f"served by {served.choice.value}")
        spans: Sequence[Span] = ()
        if isinstance(served.result, Upscaled) and self.trace.wants_spans(trace or self._number, anomalies):
            spans = served.result.spans()
        total = served.result.simulated_ms if served.result is not None else None
        name = self._backends[served.choice].name if served.choice in self._backends else served.choice.value
        self.trace.record(
            FrameTrace(self._number, began, work, name, total or 0.0, tuple(spans), tuple(anomalies), trace)
        )
        self._number += 1


_OK = {Choice.PRIMARY: Event.PRIMARY_OK, Choice.FALLBACK: Event.FALLBACK_OK}
_FAILED = {Choice.PRIMARY: Event.PRIMARY_FAILED, Choice.FALLBACK: Event.FALLBACK_FAILED}
