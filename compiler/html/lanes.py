"""The events of a frame as lanes: one for each kernel of the compute queue, one for each direction of the DMA queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from compiler.timing import Commands, TimedEvent
from contracts.npu import Op, Space
from contracts.npu.program import FLAG_DISPATCH, FLAG_LAUNCH

COMPUTE = "compute"
_DIRECTIONS = {Space.DDR: "DMA: DDR to SRAM", Space.SRAM: "DMA: SRAM to DDR"}
_CONSTANTS = "DMA: weights"
STREAMED = "DMA: with the command"


@dataclass(frozen=True)
class Bar:
    """One event in a lane; ``stripe`` counts the entries of its kernel, from 1; 0 where that has no meaning."""

    event: TimedEvent
    stripe: int

    @property
    def hint(self) -> str:
        """What the bar is, in words."""
        event = self.event
        duration = (event.end_ns - event.start_ns) / 1e3
        moved = f", {event.ddr_bytes:,} bytes of DDR" if event.ddr_bytes else ""
        stripe = f", stripe {self.stripe}" if self.stripe else ""
        return f"{event.kernel}{stripe}: {event.kind} at {event.start_ns / 1e6:.3f} ms for {duration:.1f} µs{moved}"


@dataclass(frozen=True)
class Lane:
    """A row of the timeline."""

    name: str
    queue: str
    bars: tuple[Bar, ...]

    @property
    def class_(self) -> str:
        """The kind of its bars."""
        if self.name == STREAMED:
            return "stream"
        return "compute" if self.queue == COMPUTE else "transfer"

    def between(self, begin: float, end: float) -> list[Bar]:
        """Bars that run at some time between ``begin`` and ``end``."""
        return [bar for bar in self.bars if bar.event.end_ns > begin and bar.event.start_ns < end]


def lanes(commands: Commands, events: Sequence[TimedEvent]) -> tuple[Lane, ...]:
    """Kernels in order of their first command, then the DMA queue's directions.

    A command whose operands lie in DDR streams them while it computes: it stands in its kernel's lane and in one of the
    DMA queue.
    """
    stripes = _stripes(commands)
    compute: dict[str, list[Bar]] = {}
    dma: dict[str, list[Bar]] = {}
    for event in events:
        if event.queue != COMPUTE:
            dma.setdefault(_direction(commands[event.command]), []).append(Bar(event, 0))
            continue
        compute.setdefault(event.kernel, []).append(Bar(event, stripes.get(event.command, 0)))
        if event.ddr_bytes:
            streamed = replace(event, queue="dma", start_ns=event.start_ns + event.overhead_ns, overhead_ns=0.0)
            dma.setdefault(STREAMED, []).append(Bar(streamed, 0))
    return (
        *(Lane(name, COMPUTE, tuple(bars)) for name, bars in compute.items()),
        *(Lane(name, "dma", tuple(bars)) for name, bars in dma.items()),
    )


def _stripes(commands: Commands) -> Mapping[int, int]:
    """Which entry of its kernel a command belongs to."""
    entered: dict[int, int] = {}
    stripes: dict[int, int] = {}
    columns = (commands[key].tolist() for key in ("op", "kernel", "flags"))
    for index, (operation, kernel, flags) in enumerate(zip(*columns, strict=True)):
        if operation not in (Op.DMA, Op.END):
            entered[kernel] = entered.get(kernel, 0) + bool(flags & (FLAG_LAUNCH | FLAG_DISPATCH))
            stripes[index] = entered[kernel]
    return stripes


def _direction(command: np.void) -> str:
    return _DIRECTIONS.get(Space(int(command["src"]["space"])), _CONSTANTS)


def window(rows: Sequence[Lane], most: int = 80) -> tuple[float, float] | None:
    """Times of an excerpt from the middle of a long frame, a few stripes long; None when the frame is short."""
    compute = [bar for lane in rows if lane.queue == COMPUTE for bar in lane.bars]
    if len(compute) <= most:
        return None
    widest = max((lane for lane in rows if lane.queue == COMPUTE), key=lambda lane: max(b.stripe for b in lane.bars))
    starts: dict[int, float] = {}
    for bar in widest.bars:
        starts.setdefault(bar.stripe, bar.event.start_ns)
    moments = [starts[stripe] for stripe in sorted(starts)]
    for stripes in (3, 2, 1):
        first = max(0, len(moments) // 2 - 1)
        last = min(first + stripes, len(moments) - 1)
        begin, end = moments[first], moments[last]
        inside = sum(begin <= bar.event.start_ns < end for bar in compute)
        if last > first and inside <= most:
            return begin, end
    ordered = sorted(bar.event.start_ns for bar in compute)
    middle = len(ordered) // 2
    return ordered[middle - most // 4], ordered[middle + most // 4]
