"""What the conveyor is worth: frames through stages of known length, one after another and on four threads.

Stages that wait (as for a chip, a decoder, an encoder) show the order of things alone, whatever the cores do: the
period of a frame should be that of the slowest stage. It says nothing of stages that want the same cores.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from edge_agent.conveyor import Conveyor, ConveyorSettings
from edge_agent.sinks import Frame
from edge_agent.sources import SourceFrame
from edge_agent.stages import StageRing, StageTrace
from edgeloop.figures import Figure, at_most, below, exactly

STAGES_MS = {"prepare": 6.0, "engine": 12.0, "finish": 7.0, "compose": 8.0}
STAGES = ("capture", "prepare", "engine", "finish", "compose")
FRAMES = 150
MOST_SHARE = 1.1
MOST_TRACE_US = 50.0
RECORDS = 20_000


@dataclass
class Ends:
    """Source and sink that take their time; counts what is shown, in which order."""

    frames: int
    given: int = 0
    shown: list[int] = field(default_factory=list)

    def next(self) -> SourceFrame | None:
        if self.given == self.frames:
            return None
        self.given += 1
        _wait("prepare")
        return SourceFrame(np.full((4, 4, 3), self.given, np.uint8), f"f#{self.given}")

    def write(self, frame: Frame) -> None:
        _wait("compose")
        self.shown.append(int(frame[0, 0, 0]))

    def close(self) -> None:
        return None


def flow_figures() -> list[Figure]:
    """Periods of a frame, and the cost of its stage record."""
    slowest, together = max(STAGES_MS.values()), sum(STAGES_MS.values())
    ends = Ends(FRAMES)
    one_by_one, conveyed = _one_by_one(Ends(FRAMES)), _conveyed(ends)
    share, gain = round(conveyed / slowest, 3), round(one_by_one / conveyed, 2)
    stages = ", ".join(f"{name} {ms:g}" for name, ms in STAGES_MS.items())
    return [
        at_most("flow.period_to_slowest_stage", share, f"of {slowest:g} ms ({stages})", MOST_SHARE),
        Figure("flow.gain", gain, f"times one by one; {together / slowest:.2f} is all there is", "printed", True),
        exactly("flow.in_order", ends.shown == list(range(1, FRAMES + 1)), f"{FRAMES} frames, each once", True),
        below("flow.trace.median", round(_record_us(), 2), "us a frame for the records of five stages", MOST_TRACE_US),
    ]


def _one_by_one(ends: Ends) -> float:
    began = time.perf_counter()
    while (frame := ends.next()) is not None:
        _wait("engine")
        _wait("finish")
        ends.write(frame.pixels)
    return (time.perf_counter() - began) * 1e3 / ends.frames


def _conveyed(ends: Ends) -> float:
    conveyor = Conveyor(ends, ends, ConveyorSettings())
    began = time.perf_counter()
    while (frame := conveyor.feed.next()) is not None:
        assert frame.later is not None
        _wait("engine")
        frame.later.append(_waits("finish"))
        conveyor.outlet.write(frame.pixels)
    conveyor.outlet.close()
    spent = (time.perf_counter() - began) * 1e3
    conveyor.feed.close()
    return spent / ends.frames


def _record_us() -> float:
    """Median microseconds of the record of one frame: five stages, ring and sample."""
    ring, spent = StageRing(), []
    for number in range(RECORDS):
        start = time.perf_counter_ns()
        trace = StageTrace(number, 0.0)
        for name in STAGES:
            trace.add(name, time.monotonic(), time.monotonic())
        ring.record(trace)
        spent.append((time.perf_counter_ns() - start) / 1e3)
    return statistics.median(spent)


def _wait(stage: str) -> None:
    time.sleep(STAGES_MS[stage] / 1e3)


def _waits(stage: str) -> Callable[[], None]:
    return lambda: _wait(stage)
