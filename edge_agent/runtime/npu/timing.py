"""Simulated time of a stream, by events, written from docs/reference/npu-spec.md ("Time of one frame").

Invariants: independent of the host and of the data; DMA commands run in order on one queue, all others in
order on another; a wait ties the two. Times are nanoseconds from the start of the frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from contracts.npu.program import Op, Space
from contracts.npu.spec import ArrayModel, NpuSpec
from edge_agent.runtime.npu.commands import Command
from edge_agent.runtime.npu.regions import Region


@dataclass
class KernelTime:
    """One kernel launch of a frame."""

    name: str
    start_ns: float
    end_ns: float
    compute_ns: float = 0.0
    stream_ns: float = 0.0
    ddr_bytes: int = 0
    commands: int = 0

    @property
    def bound_by(self) -> str:
        """What the kernel's time is mostly spent on: launch, compute or ddr."""
        overhead = (self.end_ns - self.start_ns) - max(self.compute_ns, self.stream_ns)
        if overhead > max(self.compute_ns, self.stream_ns):
            return "launch"
        return "ddr" if self.stream_ns > self.compute_ns else "compute"


@dataclass(frozen=True)
class FrameTime:
    """A stream's whole time, its DDR traffic and its kernels in order."""

    total_ns: float
    ddr_bytes: int
    kernels: tuple[KernelTime, ...]


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
        queues = _Queues()
        kernels: dict[int, KernelTime] = {}
        total_bytes = 0
        for command in commands:
            before = queues.compute_free
            moved = ddr_bytes(command)
            if command.op is Op.DMA:
                self._transfer(queues, command)
            else:
                row = kernels.setdefault(command.kernel, KernelTime(_name(names, command.kernel), before, before))
                self._compute(queues, command, row)
            if command.kernel in kernels:
                kernels[command.kernel].ddr_bytes += moved
            total_bytes += moved
        end = max(queues.compute_free, queues.dma_free)
        return FrameTime(end, total_bytes, tuple(kernels.values()))

    def _transfer(self, queues: _Queues, command: Command) -> None:
        start = max(queues.dma_free, queues.ready(command.wait))
        count = max(_descriptors(command.source), _descriptors(command.target))
        queues.dma_free = start + self._moving(count, _bytes(command.source))
        queues.events[command.event] = queues.dma_free

    def _compute(self, queues: _Queues, command: Command, row: KernelTime) -> None:
        spec = self._spec
        overhead = (spec.launch_us * command.launch + spec.dispatch_us * command.dispatch) * 1000 * self._stretch
        start = max(queues.compute_free, queues.ready(command.wait)) + overhead
        compute = self._compute_ns(command) * self._stretch
        streamed = [region for region in _operands(command) if region.space == Space.DDR]
        stream_end = start
        if streamed:
            moving = self._moving(sum(map(_descriptors, streamed)), sum(map(_bytes, streamed)))
            stream_end = queues.dma_free = max(start, queues.dma_free) + moving
            row.stream_ns += moving
        queues.compute_free = max(start + compute, stream_end)
        queues.events[command.event] = queues.compute_free
        row.compute_ns += compute
        row.commands += 1
        row.end_ns = queues.compute_free

    def _moving(self, descriptors: int, size: int) -> float:
        rate = self._spec.ddr_bytes_per_ns * self._spec.ddr_efficiency
        return descriptors * self._spec.dma_descriptor_ns + size / rate

    def _compute_ns(self, command: Command) -> float:
        if command.op is not Op.CONV:
            rows, cols, channels = command.target.logical
            return rows * cols * channels / self._spec.vector_elements_per_ns
        window = command.window
        rows, cols, outputs = command.target.logical
        taps, depth = window.kernel_height * window.kernel_width, command.source.logical[2] // window.groups
        return self._array.charged_macs(rows * cols, taps, depth, outputs) / self._macs_per_ns


def ddr_bytes(command: Command) -> int:
    """Return the bytes that `command` moves over the DDR bus."""
    if command.op is Op.DMA:
        outside = (Space.DDR, Space.CONST, Space.QUANT)
        touching = [region for region in (command.source, command.target) if region.space in outside]
        return sum(map(_bytes, touching))
    return sum(_bytes(region) for region in _operands(command) if region.space == Space.DDR)


def _operands(command: Command) -> list[Region]:
    optional = [command.residual] if command.residual is not None else []
    return [command.source, *optional, command.target]


def _bytes(region: Region) -> int:
    return region.rows * region.cols * region.channels


def _descriptors(region: Region) -> int:
    packed = region.pixel_stride == region.channels and region.row_stride == region.cols * region.channels
    return 1 if packed else region.rows


def _name(names: Sequence[str], kernel: int) -> str:
    return names[kernel] if kernel < len(names) else f"kernel{kernel}"
