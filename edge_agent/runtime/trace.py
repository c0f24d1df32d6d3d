"""Remembers what the last frames spent their time on, and exports it as a Chrome trace.

The ring holds the last 100 frames whatever happened. One frame in a hundred, and every frame with an anomaly,
is also kept beyond the ring, in a bounded list. Invariants: memory is bounded; a trace holds times, names and
counts, never pixels.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from edge_agent.runtime.backend import Span

_SLACK_MS = 1e-9  # sums of float milliseconds


@dataclass(frozen=True)
class TraceLimits:
    """How much is remembered."""

    ring: int = 100
    kept: int = 200
    sample_every: int = 100
    spans_per_frame: int = 256


@dataclass(frozen=True)
class FrameTrace:
    """One frame: when it began (seconds of the agent's clock), who served it, its parts, what was odd about
    it.
    """

    number: int
    began: float
    work: str
    backend: str
    total_ms: float
    spans: tuple[Span, ...] = ()
    anomalies: tuple[str, ...] = field(default=())
    trace: int = 0
    """The frame's id from the moment it was read; 0 where nobody gave one."""


class TraceRing:
    """The ring and the kept frames."""

    on = True

    def __init__(self, limits: TraceLimits | None = None) -> None:
        self._limits = limits or TraceLimits()
        self._ring: deque[FrameTrace] = deque(maxlen=self._limits.ring)
        self._kept: deque[FrameTrace] = deque(maxlen=self._limits.kept)

    def wants_spans(self, number: int, anomalies: Sequence[str]) -> bool:
        """Whether frame `number` is worth the details: sampled, or odd."""
        return bool(anomalies) or number % self._limits.sample_every == 0

    def record(self, frame: FrameTrace) -> None:
        """Remember one frame."""
        if len(frame.spans) > self._limits.spans_per_frame:
            raise ValueError(f"{len(frame.spans)} spans in a frame, at most {self._limits.spans_per_frame}")
        self._ring.append(frame)
        if self.wants_spans(frame.trace or frame.number, frame.anomalies):
            self._kept.append(frame)

    def frames(self) -> list[FrameTrace]:
        """Return every remembered frame once, oldest first."""
        merged = {(frame.number, frame.work): frame for frame in (*self._kept, *self._ring)}
        return sorted(merged.values(), key=lambda frame: (frame.number, frame.work))

    def chrome_json(self, process: str = "edgeloop agent", more: Iterable[dict[str, object]] = ()) -> str:
        """Return the trace in Chrome's format (chrome://tracing, Perfetto), with `more` events."""
        return json.dumps({"traceEvents": [*_events(self.frames(), process), *more], "displayTimeUnit": "ms"})


class Untraced(TraceRing):
    """Tracing switched off."""

    on = False

    def record(self, frame: FrameTrace) -> None:
        """Forget it."""


def _events(frames: Iterable[FrameTrace], process: str) -> Iterable[dict[str, object]]:
    yield {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": process}}
    for frame in frames:
        start = frame.began * 1e6
        shared = {"ph": "X", "pid": 1, "cat": frame.work}
        detail = {
            "frame": frame.number,
            "trace": frame.trace,
            "backend": frame.backend,
            "anomalies": list(frame.anomalies),
        }
        yield {
            **shared,
            "name": frame.work,
            "tid": 1,
            "ts": start,
            "dur": frame.total_ms * 1e3,
            "args": {**detail, "anomalies": list(frame.anomalies)},
        }
        for lane, span in _lanes(frame.spans):
            place = {"ts": start + span.start_ms * 1e3, "dur": span.duration_ms * 1e3}
            yield {**shared, "name": span.name, "tid": 2 + lane, **place, "args": {**span.detail, "trace": frame.trace}}


def _lanes(spans: Iterable[Span]) -> Iterator[tuple[int, Span]]:
    """Yield each span with the first lane that is free: the kernels of a depth-first program run at one time, and
    slices that overlap on one track are drawn wrongly.
    """
    free: list[float] = []
    for span in sorted(spans, key=lambda span: span.start_ms):
        lane = next((lane for lane, end in enumerate(free) if end <= span.start_ms + _SLACK_MS), len(free))
        free[lane : lane + 1] = [span.start_ms + span.duration_ms]
        yield lane, span
