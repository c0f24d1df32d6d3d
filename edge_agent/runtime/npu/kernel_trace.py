"""Frames of a device as a Chrome/Perfetto trace: what each queue did, what the SRAM held, how hot the device was.

Tracks: compute queue (one slice for each command, named after its kernel), DMA channel (transfers, and streams of
commands with operands in DDR), launches and dispatches; counters for SRAM, temperature, charge and clock; arrows
from a command to those that wait for it. Times are microseconds of the device's simulated clock. Invariants: slices
of one track never overlap; the number of events is bounded; a trace holds names and numbers, never pixels.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from contracts.npu.program import Op
from edge_agent.runtime.npu.climate import Conditions
from edge_agent.runtime.npu.device import NpuDevice
from edge_agent.runtime.npu.kernel_sets import SetSwitch
from edge_agent.runtime.npu.limits import LIMITS
from edge_agent.runtime.npu.loaded import LoadedProgram, RunResult
from edge_agent.runtime.npu.timing import CommandTime

Event = dict[str, object]
COMPUTE, DMA, LAUNCH = 1, 2, 3
_THREADS = {COMPUTE: "compute queue", DMA: "DMA channel", LAUNCH: "launches and dispatches"}


@dataclass(frozen=True)
class TracedFrame:
    """One frame: its commands in nominal nanoseconds, and what the frame's run multiplied them by."""

    name: str
    began_s: float
    stretch: float
    timeline: tuple[CommandTime, ...]
    kernels: tuple[str, ...]
    sram: tuple[int, ...]
    conditions: Conditions | None = None
    mhz: float = 0.0
    switch: SetSwitch | None = None


class TraceTooLong(ValueError):
    """The frames have more commands than one trace takes."""


def traced(
    device: NpuDevice, loaded: LoadedProgram, profile: str | int, result: RunResult | None = None
) -> TracedFrame:
    """Return a frame of `profile` as the device runs it now; with the time and conditions of `result`."""
    timeline = tuple(device.timeline(loaded, profile))
    name = loaded.program.profiles[loaded.program.profile_index(profile)].name
    return TracedFrame(
        name=name,
        began_s=result.began_s if result else 0.0,
        stretch=result.stretch if result else 1.0,
        timeline=timeline,
        kernels=loaded.program.names,
        sram=tuple(device.occupancy(loaded, profile)),
        conditions=result.conditions if result else device.conditions,
        mhz=device.mhz,
    )


def perfetto_json(frames: Sequence[TracedFrame], process: str = "NPU") -> str:
    """Return the frames as a file for ui.perfetto.dev or chrome://tracing; raises TraceTooLong."""
    commands = sum(len(frame.timeline) for frame in frames)
    if commands > LIMITS.traced_commands:
        raise TraceTooLong(f"{commands} commands in a trace, at most {LIMITS.traced_commands}; trace fewer frames")
    events = [*_metadata(process)]
    arrows = 0
    for number, frame in enumerate(frames):
        events += _frame(frame, number, arrows)
        arrows += len(frame.timeline)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, separators=(",", ":"))


def _metadata(process: str) -> Iterator[Event]:
    yield {"ph": "M", "pid": 1, "tid": 0, "name": "process_name", "args": {"name": process}}
    for thread, name in _THREADS.items():
        yield {"ph": "M", "pid": 1, "tid": thread, "name": "thread_name", "args": {"name": name}}
        yield {"ph": "M", "pid": 1, "tid": thread, "name": "thread_sort_index", "args": {"sort_index": thread}}


def _frame(frame: TracedFrame, number: int, arrows: int) -> Iterator[Event]:
    yield from _state(frame)
    clock = _Clock(frame)
    held = -1
    for time, sram in zip(frame.timeline, frame.sram, strict=True):
        yield from _slices(time, clock, frame, number)
        if sram != held:
            yield _counter("SRAM", clock.at(time.start_ns), {"bytes": sram})
            held = sram
    yield from _arrows(frame, clock, arrows)


@dataclass(frozen=True)
class _Clock:
    frame: TracedFrame

    def at(self, nanoseconds: float) -> float:
        """Microseconds of the device's clock."""
        return self.frame.began_s * 1e6 + nanoseconds * self.frame.stretch / 1e3

    def long(self, nanoseconds: float) -> float:
        """Microseconds of a duration."""
        return nanoseconds * self.frame.stretch / 1e3


def _slices(time: CommandTime, clock: _Clock, frame: TracedFrame, number: int) -> Iterator[Event]:
    command = time.command
    name = frame.kernels[command.kernel] if command.kernel < len(frame.kernels) else f"kernel{command.kernel}"
    detail: Event = {"frame": number, "command": command.index, "op": command.op.name, "ddr_bytes": time.ddr_bytes}
    if command.op is not Op.DMA:
        begin = time.start_ns + time.overhead_ns
        detail |= {"rows": command.target.rows, "compute_us": clock.long(time.compute_ns)}
        yield _slice(COMPUTE, name, clock.at(begin), clock.long(time.end_ns - begin), detail)
        if time.overhead_ns:
            kind = "launch" if command.launch else "dispatch"
            yield _slice(LAUNCH, f"{kind} {name}", clock.at(time.start_ns), clock.long(time.overhead_ns), detail)
    if time.stream_ns:
        moved = "DMA" if command.op is Op.DMA else "stream"
        begin = clock.at(time.stream_start_ns)
        yield _slice(DMA, f"{moved} {name}", begin, clock.long(time.stream_ns), detail)


def _arrows(frame: TracedFrame, clock: _Clock, first: int) -> Iterator[Event]:
    """Yield an arrow from each command that signals an event to each command of the other queue that waits."""
    signals = {time.command.event: time for time in frame.timeline if time.command.event}
    for position, time in enumerate(frame.timeline):
        source = signals.get(time.command.wait)
        if source is None:
            continue
        shared: Event = {"name": "wait", "cat": "wait", "id": first + position, "pid": 1}
        inside = source.end_ns - min(1.0, (source.end_ns - source.start_ns) / 2)
        yield {**shared, "ph": "s", "tid": _queue(source), "ts": clock.at(inside)}
        begin = time.start_ns + time.overhead_ns
        yield {**shared, "ph": "f", "bp": "e", "tid": _queue(time), "ts": clock.at(begin)}


def _queue(time: CommandTime) -> int:
    return DMA if time.command.op is Op.DMA else COMPUTE


def _state(frame: TracedFrame) -> Iterator[Event]:
    begin = frame.began_s * 1e6
    yield _counter("clock", begin, {"MHz": frame.mhz})
    if frame.conditions:
        yield _counter("temperature", begin, {"C": frame.conditions.temperature_c})
        yield _counter("charge", begin, {"percent": 100 * frame.conditions.charge})
    if frame.switch:
        name = f"{frame.switch.before.value} -> {frame.switch.after.value}"
        detail = {"reason": frame.switch.reason}
        yield {"ph": "i", "s": "p", "pid": 1, "tid": COMPUTE, "name": name, "ts": begin, "args": detail}


def _slice(track: int, name: str, begin: float, duration: float, detail: Event) -> Event:
    return {"ph": "X", "pid": 1, "tid": track, "name": name, "ts": begin, "dur": duration, "args": detail}


def _counter(name: str, at: float, values: dict[str, float]) -> Event:
    return {"ph": "C", "pid": 1, "tid": 0, "name": name, "ts": at, "args": values}
