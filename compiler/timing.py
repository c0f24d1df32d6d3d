"""The analytic timing model of ``docs/reference/npu-spec.md``, over a command stream.

Written from that page, apart from the emulated device; a test compares the two. Times are nanoseconds at the
nominal frequency. Invariant: no figure falls below the physical floor of MACs / peak rate and bytes / peak
bandwidth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from compiler.ir import Conv, Graph
from compiler.schedule import Step
from contracts.npu import ArrayModel, Layout, NpuSpec, Op, Space
from contracts.npu.program import FLAG_DISPATCH, FLAG_GLOBAL, FLAG_HOST, FLAG_LAUNCH

Commands = npt.NDArray[np.void]
Ints = npt.NDArray[np.int64]
_OUTSIDE = (Space.CONST, Space.QUANT)


@dataclass
class KernelEstimate:
    """What one kernel costs in one frame."""

    name: str
    launches: int = 0
    dispatches: int = 0
    commands: int = 0
    macs: int = 0
    ddr_bytes: int = 0
    compute_ns: float = 0.0
    transfer_ns: float = 0.0
    launch_ns: float = 0.0
    dispatch_ns: float = 0.0
    total_ns: float = 0.0

    @property
    def overhead_ns(self) -> float:
        """Launch and dispatches."""
        return self.launch_ns + self.dispatch_ns

    @property
    def bound_by(self) -> str:
        """The largest part of its time."""
        parts = {"compute": self.compute_ns, "ddr": self.transfer_ns, "launch": self.overhead_ns}
        return max(parts, key=lambda key: parts[key])


@dataclass(frozen=True)
class TimedEvent:
    """One command on its queue: `start_ns` is when its overhead begins, `command` its index in the frame."""

    queue: str
    kernel: str
    command: int
    start_ns: float
    end_ns: float
    overhead_ns: float
    ddr_bytes: int
    kind: str


@dataclass
class FrameEstimate:
    """One frame: kernels in order of first appearance, the sums, and every command as it runs.

    `dma_ns`: how long the DMA channel moves data; `stall_ns`: how long computing waits for it, the wait for the last
    store included.
    """

    array_model: str
    kernels: list[KernelEstimate] = field(default_factory=list)
    events: list[TimedEvent] = field(default_factory=list)
    total_ns: float = 0.0
    compute_ns: float = 0.0
    launch_ns: float = 0.0
    dispatch_ns: float = 0.0
    dma_ns: float = 0.0
    stall_ns: float = 0.0
    ddr_bytes: int = 0
    macs: int = 0
    launches: int = 0
    dispatches: int = 0

    @property
    def milliseconds(self) -> float:
        """Frame latency."""
        return self.total_ns / 1e6

    @property
    def bare_milliseconds(self) -> float:
        """Frame latency without launches and dispatches, as tools report it that model neither."""
        return (self.total_ns - self.launch_ns - self.dispatch_ns) / 1e6

    @property
    def dma_hidden_share(self) -> float:
        """Share of the DMA time that computing covers; 1 when nothing moves."""
        return max(0.0, 1 - self.stall_ns / self.dma_ns) if self.dma_ns else 1.0

    def ddr_efficiency(self, spec: NpuSpec) -> float:
        """Bytes moved over what the peak rate could move in the time that the channel is busy."""
        return self.ddr_bytes / (self.dma_ns * spec.ddr_bytes_per_ns) if self.dma_ns else 0.0


@dataclass
class _Clock:
    compute_free: float = 0.0
    dma_free: float = 0.0
    events: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Costs:
    """What each command costs on its own, column by column."""

    op: list[int]
    kernel: list[int]
    event: list[int]
    wait: list[int]
    launch_ns: list[float]
    dispatch_ns: list[float]
    macs: list[int]
    compute_ns: list[float]
    transfer_ns: list[float]
    moved: list[int]


def estimate(commands: Commands, names: Sequence[str], spec: NpuSpec, array_model: ArrayModel) -> FrameEstimate:
    """Time the given commands (cut off the prologue before); END stops."""
    frame = FrameEstimate(array_model.name)
    clock = _Clock()
    kernels: dict[int, KernelEstimate] = {}
    ends = np.flatnonzero(commands["op"] == Op.END)
    costs = _costs(commands[: ends[0]] if len(ends) else commands, spec, array_model)
    for index, number in enumerate(costs.kernel):
        if number not in kernels:
            kernels[number] = KernelEstimate(names[number])
            frame.kernels.append(kernels[number])
        event = _run(index, costs, kernels[number], clock)
        frame.events.append(event)
        if costs.event[index]:
            clock.events[costs.event[index]] = event.end_ns
    frame.total_ns = max(clock.compute_free, clock.dma_free)
    for kernel in frame.kernels:
        for part in ("compute_ns", "launch_ns", "dispatch_ns", "ddr_bytes", "macs", "launches", "dispatches"):
            setattr(frame, part, getattr(frame, part) + getattr(kernel, part))
    frame.dma_ns = sum(kernel.transfer_ns for kernel in frame.kernels)
    frame.stall_ns = max(0.0, frame.total_ns - frame.compute_ns - frame.launch_ns - frame.dispatch_ns)
    return frame


def _run(index: int, costs: _Costs, kernel: KernelEstimate, clock: _Clock) -> TimedEvent:
    ready = clock.events.get(costs.wait[index], 0.0) if costs.wait[index] else 0.0
    transfer, moved = costs.transfer_ns[index], costs.moved[index]
    kernel.transfer_ns += transfer
    kernel.ddr_bytes += moved
    if costs.op[index] == Op.DMA:
        start = max(clock.dma_free, ready)
        clock.dma_free = start + transfer
        return TimedEvent("dma", kernel.name, index, start, clock.dma_free, 0.0, moved, "DMA")
    launch, dispatch, compute = costs.launch_ns[index], costs.dispatch_ns[index], costs.compute_ns[index]
    before = clock.compute_free
    begun = max(before, ready)
    start = begun + launch + dispatch
    end = start + compute
    if transfer:
        clock.dma_free = max(start, clock.dma_free) + transfer
        end = max(end, clock.dma_free)
    clock.compute_free = end
    kernel.launches += launch > 0
    kernel.dispatches += dispatch > 0
    kernel.commands += 1
    kernel.macs += costs.macs[index]
    kernel.compute_ns += compute
    kernel.launch_ns += launch
    kernel.dispatch_ns += dispatch
    kernel.total_ns += end - before
    name = Op(costs.op[index]).name
    return TimedEvent("compute", kernel.name, index, begun, end, launch + dispatch, moved, name)


def _costs(commands: Commands, spec: NpuSpec, array_model: ArrayModel) -> _Costs:
    dma = commands["op"] == Op.DMA
    conv = commands["op"] == Op.CONV
    rows, cols, channels = _logical(commands["dst"])
    depth = _logical(commands["src"])[2] // np.maximum(commands["groups"].astype(np.int64), 1)
    taps = commands["kh"].astype(np.int64) * commands["kw"]
    charged = array_model.charged_macs(rows * cols, taps, depth, channels)
    rate = array_model.macs_per_cycle * spec.nominal_mhz / 1000
    elements = rows * cols * channels
    compute = np.where(conv, charged / rate, _others(commands, elements, taps, spec))
    moved, transfer = _moves(commands, dma, spec)
    launch, dispatch = (commands["flags"] & flag != 0 for flag in (FLAG_LAUNCH, FLAG_DISPATCH))
    return _Costs(
        op=commands["op"].tolist(),
        kernel=commands["kernel"].tolist(),
        event=commands["event"].tolist(),
        wait=commands["wait"].tolist(),
        launch_ns=(launch * spec.launch_us * 1000).tolist(),
        dispatch_ns=(dispatch * spec.dispatch_us * 1000).tolist(),
        macs=np.where(conv, elements * taps * depth, 0).tolist(),
        compute_ns=compute.tolist(),
        transfer_ns=transfer.tolist(),
        moved=moved.tolist(),
    )


def _others(commands: Commands, elements: Ints, taps: Ints, spec: NpuSpec) -> npt.NDArray[np.float64]:
    """Time of what does not run on the array: the vector unit, and the host with its call."""
    pool, host = commands["op"] == Op.POOL, commands["op"] == Op.HOST
    rows, cols, channels = _logical(commands["src"])
    whole = commands["flags"] & FLAG_GLOBAL != 0
    reads = np.where(pool, np.where(whole, rows * cols * channels, elements * taps), elements)
    counted = np.where(host, elements * np.maximum(taps, 1), reads)
    called = spec.host_call_us * 1000 + counted / spec.host_elements_per_ns
    return np.where(host | (commands["flags"] & FLAG_HOST != 0), called, counted / spec.vector_elements_per_ns)


def _moves(commands: Commands, dma: npt.NDArray[np.bool_], spec: NpuSpec) -> tuple[Ints, npt.NDArray[np.float64]]:
    """Bytes over the DDR bus of each command, and how long the channel is busy with them."""
    fields = ("src", "residual", "dst")
    sizes = [region_bytes(commands[name]) for name in fields]
    counts = [_descriptors(commands[name]) for name in fields]
    near = [np.isin(commands[name]["space"], (Space.DDR,)) for name in fields]
    outside = [np.isin(commands[name]["space"], (Space.DDR, *_OUTSIDE)) for name in fields]
    streamed = sum(size * there for size, there in zip(sizes, near, strict=True))
    brought = sizes[0] * outside[0] + sizes[2] * outside[2]
    moved = np.where(dma, brought, streamed)
    descriptors = np.where(
        dma,
        np.maximum(counts[0], counts[2]),
        sum(count * there for count, there in zip(counts, near, strict=True)),
    )
    bytes_charged = np.where(dma, sizes[0], streamed)
    rate = spec.ddr_bytes_per_ns * spec.ddr_efficiency
    return moved.astype(np.int64), descriptors * spec.dma_descriptor_ns + bytes_charged / rate


def step_macs(step: Step, graph: Graph) -> int:
    """Multiply-accumulates of a whole step."""
    if not isinstance(step, Conv):
        return 0
    rows, cols, channels = step.write.logical(graph.values[step.result].shape)
    return rows * cols * channels * step.kernel[0] * step.kernel[1] * int(step.weights.shape[1])


def _logical(region: Commands) -> tuple[Ints, Ints, Ints]:
    """Rows, cols, channels of the logical tensors behind regions."""
    rows, cols, channels = (region[key].astype(np.int64) for key in ("rows", "cols", "channels"))
    block = np.maximum(region["block"].astype(np.int64), 1)
    shuffled = np.isin(region["layout"], (Layout.S2D, Layout.D2S))
    nearest = region["layout"] == Layout.NEAREST
    down, up = np.where(shuffled, block, 1), np.where(nearest, block, 1)
    return rows // down * up, cols // down * up, channels * down * down


def region_bytes(region: Commands) -> Ints:
    """Bytes of each access."""
    size: Ints = region["rows"].astype(np.int64) * region["cols"] * region["channels"]
    return size


def _descriptors(region: Commands) -> Ints:
    rows, cols, channels, first, ring = (
        region[key].astype(np.int64) for key in ("rows", "cols", "channels", "ring_first", "ring_rows")
    )
    contiguous = (region["pixel_stride"] == channels) & (region["row_stride"] == cols * channels)
    wrapped = (ring > 0) & (first + rows > ring)
    return np.where(contiguous, np.where(wrapped, 2, 1), rows)
