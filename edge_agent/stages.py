"""What each frame's way through the conveyor took, in a ring like the runner's: all late frames, one in a hundred else.

A frame has one trace id from the moment it is read: the same in these records, in the runner's and in the export.
Invariants: memory is bounded; times, names and counts, never pixels.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from edge_agent.runtime.trace import TraceLimits


@dataclass
class StageTrace:
    """One frame: when it was read (seconds of the agent's clock), and its stages as (name, start, end) in real seconds
    since then.
    """

    trace: int
    began: float
    stages: list[tuple[str, float, float]] = field(default_factory=list)
    anomalies: tuple[str, ...] = ()

    def add(self, name: str, start: float, end: float) -> None:
        self.stages.append((name, start, end))


class StageRing:
    """The last frames, and those worth keeping."""

    def __init__(self, limits: TraceLimits | None = None) -> None:
        self._limits = limits or TraceLimits()
        self._ring: deque[StageTrace] = deque(maxlen=self._limits.ring)
        self._kept: deque[StageTrace] = deque(maxlen=self._limits.kept)

    def record(self, frame: StageTrace) -> None:
        """Remember one frame."""
        self._ring.append(frame)
        if frame.anomalies or frame.trace % self._limits.sample_every == 0:
            self._kept.append(frame)

    def frames(self) -> list[StageTrace]:
        """Return every remembered frame once, oldest first."""
        merged = {frame.trace: frame for frame in (*self._kept, *self._ring)}
        return [merged[number] for number in sorted(merged)]


LANES = {"capture": 100, "prepare": 101, "engine": 102, "finish": 103, "compose": 104}


def stage_events(frames: Iterable[StageTrace]) -> Iterable[dict[str, object]]:
    """Yield Chrome events: a slice for each stage on its own track, and arrows that follow a frame."""
    for name, lane in LANES.items():
        yield {"name": "thread_name", "ph": "M", "pid": 1, "tid": lane, "args": {"name": name}}
    for frame in frames:
        last = len(frame.stages) - 1
        for index, (name, start, end) in enumerate(frame.stages):
            at = (frame.began + start) * 1e6
            shared = {"pid": 1, "tid": LANES[name], "cat": "stage", "ts": at}
            detail = {"trace": frame.trace, "anomalies": list(frame.anomalies)}
            yield {**shared, "name": name, "ph": "X", "dur": (end - start) * 1e6, "args": detail}
            arrow = "s" if index == 0 else "f" if index == last else "t"
            yield {**shared, "name": "frame", "ph": arrow, "id": frame.trace, "bp": "e"}
