"""Simulated time of a stream, by events, written from docs/reference/npu-spec.md ("Time of one frame").

Invariants: independent of the host and of the data; DMA commands run in order on one queue, all others in
order on another; a wait ties the two. Times are nanoseconds from the start of the frame.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from contracts.npu.program import Op, Space
from contracts.npu.spec import ArrayModel, NpuSpec
from edge_agent.runtime.npu.commands import Command
from edge_agent.runtime.npu.regions import Region


@dataclass(frozen=True)
class CommandTime:
    """When one command ran. `overhead_ns` (launch or dispatch) comes first, then `compute_ns`.

    `free_ns` is when its queue was free before it. A compute command with operands in DDR also holds the DMA
    channel from `stream_start_ns` for `stream_ns`; for a DMA command that is the transfer itself.
    """

    command: Command
    free_ns: float
    start_ns: float
    end_ns: float
    overhead_ns: float
    compute_ns: float
    stream_start_ns: float
    stream_ns: float
    ddr_bytes: int


@dataclass
class KernelTime:
    """One kernel of a frame. Stripes of several kernels may interleave between its start and its end;
    `busy_ns` is its own share of the compute queue, and the shares of all kernels add up to the frame.
    """

    name: str
    start_ns: float = 0.0
    end_ns: float = 0.0
    busy_ns: float = 0.0
    compute_ns: float = 0.0
    stream_ns: float = 0.0
    overhead_ns: float = 0.0
    ddr_bytes: int = 0
    commands: int = 0

    @property
    def bound_by(self) -> str:
        """What the kernel's time is mostly spent on: launch, compute or ddr."""
        overhead = self.busy_ns - max(self.compute_ns, self.stream_ns)
        if overhead > max(self.compute_ns, self.stream_ns):
            return "launch"
        return "ddr" if self.stream_ns > self.compute_ns else "compute"

    def add(self, time: CommandTime) -> None:
        """Take over one of its compute commands."""
        if not self.commands:
            self.start_ns = time.free_ns
        self.commands += 1
        self.end_ns = time.end_ns
        self.busy_ns += time.end_ns - time.free_ns
        self.compute_ns += time.compute_ns
        self.stream_ns += time.stream_ns
        self.overhead_ns += time.overhead_ns


@dataclass(frozen=True)
class FrameTime:
    """A stream's whole time, its DDR traffic and its kernels in order of their first compute command."""

    total_ns: float
    ddr_bytes: int
    kernels: tuple[KernelTime, ...]
    compute_ns: float = 0.0
    """Time in which the array or the vector unit worked."""


@dataclass
class _Queues:
    compute_free: float = 0.0
    dma_free: float = 0.0
    events: dict[int, float] = field(default_factory=dict)

    def ready(self, event: int) -> float:
        return self.events.get(event, 0.0) if event else 0.0


class Timer:
    """Times streams for one target, one array model and one frequency."""

    def __init__(self, spec: NpuSpec, array: ArrayModel, mhz: float | None = None) -> None:
        self._spec = spec
        self._array = array
        self._macs_per_ns = array.macs_per_cycle * spec.nominal_mhz / 1000
        self._stretch = spec.nominal_mhz / (mhz or spec.nominal_mhz)

    def time(self, commands: Iterable[Command], names: Sequence[str]) -> FrameTime:
        """Return the time of `commands` from an idle device."""
        kernels: dict[int, KernelTime] = {}
        moved: dict[int, int] = {}
        end = compute = 0.0
        for time in self.timeline(commands):
            kernel = time.command.kernel
            if time.command.op is not Op.DMA:
                kernels.setdefault(kernel, KernelTime(_name(names, kernel))).add(time)
            moved[kernel] = moved.get(kernel, 0) + time.ddr_bytes
            compute += time.compute_ns
            end = max(end, time.end_ns)
        for kernel, row in kernels.items():
            row.ddr_bytes = moved[kernel]
        return FrameTime(end, sum(moved.values()), tuple(kernels.values()), compute)

    def timeline(self, commands: Iterable[Command]) -> Iterator[CommandTime]:
        """Yield when each command runs, in stream order."""
        queues = _Queues()
        for command in commands:
            time = self._transfer(queues, command) if command.op is Op.DMA else self._compute(queues, command)
            if command.event:
                queues.events[command.event] = time.end_ns
            yield time

    def _transfer(self, queues: _Queues, command: Command) -> CommandTime:
        free = queues.dma_free
        start = max(free, queues.ready(command.wait))
        count = max(_descriptors(command.source), _descriptors(command.target))
        moving = self._moving(count, _bytes(command.source))
        queues.dma_free = start + moving
        return CommandTime(command, free, start, start + moving, 0.0, 0.0, start, moving, ddr_bytes(command))

    def _compute(self, queues: _Queues, command: Command) -> CommandTime:
        spec, free = self._spec, queues.compute_free
        overhead = (spec.launch_us * command.launch + spec.dispatch_us * command.dispatch) * 1000 * self._stretch
        entered = max(free, queues.ready(command.wait))
        start = entered + overhead
        compute = self._compute_ns(command) * self._stretch
        streamed = [region for region in _operands(command) if region.space == Space.DDR]
        stream_start, moving = start, 0.0
        if streamed:
            moving = self._moving(sum(map(_descriptors, streamed)), sum(map(_bytes, streamed)))
            stream_start = max(start, queues.dma_free)
            queues.dma_free = stream_start + moving
        end = queues.compute_free = max(start + compute, stream_start + moving)
        moved = sum(map(_bytes, streamed))
        return CommandTime(command, free, entered, end, overhead, compute, stream_start, moving, moved)

    def _moving(self, descriptors: int, size: int) -> float:
        rate = self._spec.ddr_bytes_per_ns * self._spec.ddr_efficiency
        return descriptors * self._spec.dma_descriptor_ns + size / rate

    def _compute_ns(self, command: Command) -> float:
        window, spec = command.window, self._spec
        rows, cols, outputs = command.target.logical
        taps = window.kernel_height * window.kernel_width
        if command.op is Op.CONV:
            depth = command.source.logical[2] // window.groups
            return self._array.charged_macs(rows * cols, taps, depth, outputs) / self._macs_per_ns
        elements = rows * cols * outputs
        if command.op is Op.HOST:
            elements *= max(taps, 1)
        if command.op is Op.POOL:
            elements = math.prod(command.source.logical) if command.whole_map else elements * taps
        if command.on_host:
            return spec.host_call_us * 1000 + elements / spec.host_elements_per_ns
        return elements / spec.vector_elements_per_ns


def ddr_bytes(command: Command) -> int:
    """Return the bytes that `command` moves over the DDR bus."""
    if command.op is Op.DMA:
        outside = (Space.DDR, Space.CONST, Space.QUANT)
        touching = [region for region in (command.source, command.target) if region.space in outside]
        return sum(map(_bytes, touching))
    return sum(_bytes(region) for region in _operands(command) if region.space == Space.DDR)


def _operands(command: Command) -> tuple[Region, ...]:
    return (*command.reads, command.target)


def _bytes(region: Region) -> int:
    return region.rows * region.cols * region.channels


def _descriptors(region: Region) -> int:
    packed = region.pixel_stride == region.channels and region.row_stride == region.cols * region.channels
    return 1 if packed else region.rows


def _name(names: Sequence[str], kernel: int) -> str:
    return names[kernel] if kernel < len(names) else f"kernel{kernel}"
