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

from contracts.npu import ArrayModel, Layout, NpuSpec, Op, Space
from contracts.npu.program import FLAG_DISPATCH, FLAG_LAUNCH

Commands = npt.NDArray[np.void]
_OUTSIDE = (Space.CONST, Space.QUANT)


@dataclass
class KernelEstimate:
    """What one kernel costs in one frame."""

    name: str
    launches: int = 0
    commands: int = 0
    macs: int = 0
    ddr_bytes: int = 0
    compute_ns: float = 0.0
    transfer_ns: float = 0.0
    overhead_ns: float = 0.0
    total_ns: float = 0.0

    @property
    def bound_by(self) -> str:
        """The largest part of its time."""
        parts = {"compute": self.compute_ns, "ddr": self.transfer_ns, "launch": self.overhead_ns}
        return max(parts, key=lambda key: parts[key])


@dataclass
class FrameEstimate:
    """One frame: kernels in order of first appearance, and the sum."""

    array_model: str
    kernels: list[KernelEstimate] = field(default_factory=list)
    total_ns: float = 0.0
    compute_ns: float = 0.0
    ddr_bytes: int = 0
    macs: int = 0
    launches: int = 0

    @property
    def milliseconds(self) -> float:
        """Frame latency."""
        return self.total_ns / 1e6


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
    for command in commands:
        if command["op"] == Op.END:
            break
        index = int(command["kernel"])
        kernel = kernels.setdefault(index, KernelEstimate(names[index]))
        _advance(command, kernel, clock, spec, array_model)
    frame.kernels = list(kernels.values())
    frame.total_ns = max(clock.compute_free, clock.dma_free)
    for kernel in frame.kernels:
        frame.compute_ns += kernel.compute_ns
        frame.ddr_bytes += kernel.ddr_bytes
        frame.macs += kernel.macs
        frame.launches += kernel.launches
    return frame


def _advance(command: np.void, kernel: KernelEstimate, clock: _Clock, spec: NpuSpec, array_model: ArrayModel) -> None:
    ready = clock.events.get(int(command["wait"]), 0.0)
    if command["op"] == Op.DMA:
        size = region_bytes(command["src"])
        descriptors = max(_descriptors(command["src"]), _descriptors(command["dst"]))
        end = clock.dma_free = max(clock.dma_free, ready) + _transfer(spec, descriptors, size)
        kernel.transfer_ns += _transfer(spec, descriptors, size)
        kernel.ddr_bytes += sum(size for key in ("src", "dst") if _is_ddr(command[key], constants=True))
    else:
        end = _compute(command, kernel, clock, spec, array_model, ready)
    if command["event"]:
        clock.events[int(command["event"])] = end


def _compute(
    command: np.void,
    kernel: KernelEstimate,
    clock: _Clock,
    spec: NpuSpec,
    array_model: ArrayModel,
    ready: float,
) -> float:
    launch, dispatch = (bool(command["flags"] & flag) for flag in (FLAG_LAUNCH, FLAG_DISPATCH))
    overhead = (spec.launch_us * launch + spec.dispatch_us * dispatch) * 1000
    before = clock.compute_free
    start = max(clock.compute_free, ready) + overhead
    macs, compute = _work(command, spec, array_model)
    regions = [command[key] for key in ("src", "residual", "dst") if _is_ddr(command[key])]
    transfer = _transfer(spec, sum(map(_descriptors, regions)), sum(map(region_bytes, regions)))
    end = start + compute
    if regions:
        clock.dma_free = max(start, clock.dma_free) + transfer
        end = max(end, clock.dma_free)
    clock.compute_free = end
    kernel.launches += launch
    kernel.commands += 1
    kernel.macs += macs
    kernel.compute_ns += compute
    kernel.transfer_ns += transfer if regions else 0.0
    kernel.overhead_ns += overhead
    kernel.ddr_bytes += sum(map(region_bytes, regions))
    kernel.total_ns += end - before
    return end


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
    packed = region["pixel_stride"] == region["channels"]
    contiguous = packed and int(region["row_stride"]) == int(region["cols"]) * int(region["channels"])
    return 1 if contiguous else int(region["rows"])


def _is_ddr(region: np.void, *, constants: bool = False) -> bool:
    return bool(region["space"] == Space.DDR) or (constants and int(region["space"]) in _OUTSIDE)


def _transfer(spec: NpuSpec, descriptors: int, size: int) -> float:
    return descriptors * spec.dma_descriptor_ns + size / (spec.ddr_bytes_per_ns * spec.ddr_efficiency)
