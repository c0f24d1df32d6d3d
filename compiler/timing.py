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
from contracts.npu.program import FLAG_DISPATCH, FLAG_LAUNCH

Commands = npt.NDArray[np.void]
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


def estimate(commands: Commands, names: Sequence[str], spec: NpuSpec, array_model: ArrayModel) -> FrameEstimate:
    """Time the given commands (cut off the prologue before); END stops."""
    frame = FrameEstimate(array_model.name)
    clock = _Clock()
    kernels: dict[int, KernelEstimate] = {}
    for index, command in enumerate(commands):
        if command["op"] == Op.END:
            break
        number = int(command["kernel"])
        if number not in kernels:
            kernels[number] = KernelEstimate(names[number])
            frame.kernels.append(kernels[number])
        frame.events.append(_run(index, command, kernels[number], clock, spec, array_model))
    frame.total_ns = max(clock.compute_free, clock.dma_free)
    for kernel in frame.kernels:
        for part in ("compute_ns", "launch_ns", "dispatch_ns", "ddr_bytes", "macs", "launches", "dispatches"):
            setattr(frame, part, getattr(frame, part) + getattr(kernel, part))
    frame.dma_ns = sum(kernel.transfer_ns for kernel in frame.kernels)
    frame.stall_ns = max(0.0, frame.total_ns - frame.compute_ns - frame.launch_ns - frame.dispatch_ns)
    return frame


def _run(
    index: int, command: np.void, kernel: KernelEstimate, clock: _Clock, spec: NpuSpec, array_model: ArrayModel
) -> TimedEvent:
    ready = clock.events.get(int(command["wait"]), 0.0) if command["wait"] else 0.0
    if command["op"] == Op.DMA:
        event = _transfer_event(index, command, kernel, clock, spec, ready)
    else:
        event = _compute_event(index, command, kernel, clock, spec, array_model, ready)
    if command["event"]:
        clock.events[int(command["event"])] = event.end_ns
    return event


def _transfer_event(
    index: int, command: np.void, kernel: KernelEstimate, clock: _Clock, spec: NpuSpec, ready: float
) -> TimedEvent:
    start = max(clock.dma_free, ready)
    count = max(_descriptors(command["src"]), _descriptors(command["dst"]))
    moved = sum(region_bytes(command[key]) for key in ("src", "dst") if _is_ddr(command[key], constants=True))
    transfer = _transfer(spec, count, region_bytes(command["src"]))
    clock.dma_free = start + transfer
    kernel.transfer_ns += transfer
    kernel.ddr_bytes += moved
    return TimedEvent("dma", kernel.name, index, start, clock.dma_free, 0.0, moved, "DMA")


def _compute_event(
    index: int,
    command: np.void,
    kernel: KernelEstimate,
    clock: _Clock,
    spec: NpuSpec,
    array_model: ArrayModel,
    ready: float,
) -> TimedEvent:
    launch, dispatch = (bool(command["flags"] & flag) for flag in (FLAG_LAUNCH, FLAG_DISPATCH))
    launch_ns, dispatch_ns = spec.launch_us * launch * 1000, spec.dispatch_us * dispatch * 1000
    before = clock.compute_free
    begun = max(clock.compute_free, ready)
    start = begun + launch_ns + dispatch_ns
    macs, compute = _work(command, spec, array_model)
    regions = [command[key] for key in ("src", "residual", "dst") if _is_ddr(command[key])]
    transfer = _transfer(spec, sum(map(_descriptors, regions)), sum(map(region_bytes, regions)))
    end = start + compute
    if regions:
        clock.dma_free = max(start, clock.dma_free) + transfer
        end = max(end, clock.dma_free)
        kernel.transfer_ns += transfer
    clock.compute_free = end
    moved = sum(map(region_bytes, regions))
    kernel.launches += launch
    kernel.dispatches += dispatch
    kernel.commands += 1
    kernel.macs += macs
    kernel.compute_ns += compute
    kernel.launch_ns += launch_ns
    kernel.dispatch_ns += dispatch_ns
    kernel.ddr_bytes += moved
    kernel.total_ns += end - before
    name = Op(int(command["op"])).name
    return TimedEvent("compute", kernel.name, index, begun, end, launch_ns + dispatch_ns, moved, name)


def step_macs(step: Step, graph: Graph) -> int:
    """Multiply-accumulates of a whole step."""
    if not isinstance(step, Conv):
        return 0
    rows, cols, channels = step.write.logical(graph.values[step.result].shape)
    return rows * cols * channels * step.kernel[0] * step.kernel[1] * int(step.weights.shape[1])


def _work(command: np.void, spec: NpuSpec, array_model: ArrayModel) -> tuple[int, float]:
    rows, cols, channels = logical_extents(command["dst"])
    if command["op"] != Op.CONV:
        return 0, rows * cols * channels / spec.vector_elements_per_ns
    depth = logical_extents(command["src"])[2] // int(command["groups"])
    taps = int(command["kh"]) * int(command["kw"])
    charged = array_model.charged_macs(rows * cols, taps, depth, channels)
    return rows * cols * taps * depth * channels, charged / (array_model.macs_per_cycle * spec.nominal_mhz / 1000)


def logical_extents(region: np.void) -> tuple[int, int, int]:
    """Rows, cols, channels of the logical tensor behind a region."""
    rows, cols, channels = (int(region[key]) for key in ("rows", "cols", "channels"))
    block = int(region["block"])
    if region["layout"] in (Layout.S2D, Layout.D2S):
        return rows // block, cols // block, channels * block * block
    if region["layout"] == Layout.NEAREST:
        return rows * block, cols * block, channels
    return rows, cols, channels


def region_bytes(region: np.void) -> int:
    """Bytes of one access."""
    return int(region["rows"]) * int(region["cols"]) * int(region["channels"])


def _descriptors(region: np.void) -> int:
    rows, ring = int(region["rows"]), int(region["ring_rows"])
    packed = region["pixel_stride"] == region["channels"]
    contiguous = packed and int(region["row_stride"]) == int(region["cols"]) * int(region["channels"])
    if not contiguous:
        return rows
    return 2 if ring and int(region["ring_first"]) + rows > ring else 1


def _is_ddr(region: np.void, *, constants: bool = False) -> bool:
    return bool(region["space"] == Space.DDR) or (constants and int(region["space"]) in _OUTSIDE)


def _transfer(spec: NpuSpec, descriptors: int, size: int) -> float:
    return descriptors * spec.dma_descriptor_ns + size / (spec.ddr_bytes_per_ns * spec.ddr_efficiency)
