"""Where one kernel's time goes: computing, waiting for data, launch, dispatch; and how much transfer it hid.

``wait`` is the part of a kernel's time in which the compute queue stood still for a transfer, be it before a command
or at its end; the last store of a frame counts for the kernel that it serves. The times of all kernels add up to the
frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.timing import Commands, FrameEstimate, KernelEstimate
from contracts.npu import Op, Space
from contracts.npu.program import FLAG_HOST


@dataclass(frozen=True)
class KernelUsage:
    """One kernel in one frame. Times are nanoseconds; ``sram_top`` is one past the highest SRAM byte it touches."""

    name: str
    operations: tuple[str, ...]
    commands: int
    launches: int
    dispatches: int
    macs: int
    ddr_bytes: int
    compute_ns: float
    wait_ns: float
    launch_ns: float
    dispatch_ns: float
    transfer_ns: float
    total_ns: float
    sram_top: int

    @property
    def stripes(self) -> int:
        """How often the kernel is entered."""
        return self.launches + self.dispatches

    @property
    def bound_by(self) -> str:
        """The largest part of its time."""
        parts = {
            "compute": self.compute_ns,
            "ddr": self.wait_ns,
            "launch": self.launch_ns,
            "dispatch": self.dispatch_ns,
        }
        return max(parts, key=lambda key: parts[key])

    @property
    def hidden_share(self) -> float | None:
        """Share of its transfer time that did not hold up the compute queue; None without transfers."""
        return hidden_share(self.transfer_ns, self.wait_ns)


def hidden_share(transfer_ns: float, wait_ns: float) -> float | None:
    """1 is all hidden, 0 all waited for; None when nothing was transferred."""
    return min(1.0, max(0.0, 1.0 - wait_ns / transfer_ns)) if transfer_ns > 0 else None


@dataclass(frozen=True)
class FrameUsage:
    """All kernels of a frame."""

    array_model: str
    kernels: tuple[KernelUsage, ...]
    total_ns: float

    def sum(self, part: str) -> float:
        """One field over all kernels."""
        return float(sum(getattr(kernel, part) for kernel in self.kernels))

    @property
    def wait_ns(self) -> float:
        """All time in which the frame waited for transfers."""
        return self.sum("wait_ns")

    @property
    def hidden_share(self) -> float | None:
        """Share of all transfer time that did not lengthen the frame."""
        return hidden_share(self.sum("transfer_ns"), self.wait_ns)

    @property
    def limit(self) -> str:
        """The largest part of the frame's time."""
        parts = {
            "compute": self.sum("compute_ns"),
            "DDR": self.wait_ns,
            "launches": self.sum("launch_ns"),
            "dispatches": self.sum("dispatch_ns"),
        }
        return max(parts, key=lambda key: parts[key])


def frame_usage(commands: Commands, frame: FrameEstimate, names: Sequence[str]) -> FrameUsage:
    """Split a frame; ``commands`` and ``frame`` are of the same stream without its prologue."""
    counts = _counts(commands, names)
    last = _none_below(frame.total_ns - sum(kernel.total_ns for kernel in frame.kernels))
    server = max(frame.events, key=lambda event: event.end_ns).kernel if frame.events else ""
    kernels = tuple(
        _usage(kernel, counts[kernel.name], last if kernel.name == server else 0.0) for kernel in frame.kernels
    )
    return FrameUsage(frame.array_model, kernels, frame.total_ns)


def _usage(kernel: KernelEstimate, seen: _Count, last_store_ns: float) -> KernelUsage:
    total = kernel.total_ns + last_store_ns
    return KernelUsage(
        name=kernel.name,
        operations=seen.operations,
        commands=seen.commands,
        launches=kernel.launches,
        dispatches=kernel.dispatches,
        macs=kernel.macs,
        ddr_bytes=kernel.ddr_bytes,
        compute_ns=kernel.compute_ns,
        wait_ns=_none_below(total - kernel.overhead_ns - kernel.compute_ns),
        launch_ns=kernel.launch_ns,
        dispatch_ns=kernel.dispatch_ns,
        transfer_ns=kernel.transfer_ns,
        total_ns=total,
        sram_top=seen.sram_top,
    )


def _none_below(time: float, grain: float = 1e-3) -> float:
    """Differences of sums leave dust that is no time."""
    return time if time > grain else 0.0


@dataclass(frozen=True)
class _Count:
    operations: tuple[str, ...]
    commands: int
    sram_top: int


def _counts(commands: Commands, names: Sequence[str]) -> Mapping[str, _Count]:
    stream = commands[: int(np.argmax(commands["op"] == Op.END))] if (commands["op"] == Op.END).any() else commands
    tops = _sram_tops(stream)
    counts: dict[str, _Count] = {}
    for index in np.unique(stream["kernel"]):
        chosen = stream["kernel"] == index
        operations = stream["op"][chosen]
        counts[names[int(index)]] = _Count(
            operations=_operations(stream[chosen]),
            commands=int((operations != Op.DMA).sum()),
            sram_top=int(tops[chosen].max()),
        )
    return counts


def _operations(commands: Commands) -> tuple[str, ...]:
    """What a kernel computes with; HOST too when the host processor stands in for the NPU."""
    names = {Op(int(code)).name for code in np.unique(commands["op"]) if code != Op.DMA}
    stands_in = (commands["flags"] & FLAG_HOST != 0).any()
    return tuple(sorted(names | {Op.HOST.name} if stands_in else names))


def _sram_tops(stream: Commands) -> npt.NDArray[np.int64]:
    """One past the highest byte of SRAM that each command's regions touch."""
    tops = np.zeros(len(stream), np.int64)
    for key in ("src", "residual", "dst"):
        region = stream[key]
        rows = np.where(region["ring_rows"] > 0, region["ring_rows"], region["rows"]).astype(np.int64)
        last_row = (region["cols"].astype(np.int64) - 1) * region["pixel_stride"] + region["channels"]
        ends = region["offset"].astype(np.int64) + (rows - 1) * region["row_stride"] + last_row
        tops = np.maximum(tops, np.where(region["space"] == Space.SRAM, ends, 0))
    return tops
