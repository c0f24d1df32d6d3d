"""``profile_baseline.csv``: the estimate as a table that ``compare-perf``, the gate and agents read.

Invariant: deterministic text; kernels of a program, profile and array model add up to its ``total`` row.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

from compiler.measures.compiled import usages
from compiler.measures.kernels import KernelUsage
from compiler.program_builder import CompiledProfile, CompiledProgram

TOTAL = "total"
BASELINE_COLUMNS = (
    "target",
    "program",
    "profile",
    "array_model",
    "kernel",
    "microseconds",
    "ddr_bytes",
    "macs",
    "compute_us",
    "transfer_us",
    "launch_us",
    "dispatch_us",
    "wait_us",
    "launches",
    "dispatches",
    "hidden_dma_share",
    "bound_by",
    "sram_peak",
)
_TIMES = ("compute_ns", "transfer_ns", "launch_ns", "dispatch_ns", "wait_ns")


def profile_baseline(target: str, programs: Mapping[str, CompiledProgram]) -> bytes:
    """``profile_baseline.csv``: a row for each program, profile, array model and kernel, and ``total`` rows.

    ``wait_us`` is the time for which the compute queue stood still for transfers, ``hidden_dma_share`` the share of
    ``transfer_us`` that caused none of it (empty without transfers); ``sram_peak`` is one past the highest byte used.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(BASELINE_COLUMNS)
    for name, program in programs.items():
        for profile in program.profiles:
            writer.writerows(_rows(target, name, profile, program.names))
    return text.getvalue().encode()


def _rows(target: str, program: str, profile: CompiledProfile, names: tuple[str, ...]) -> list[list[object]]:
    rows: list[list[object]] = []
    for frame, usage in zip(profile.estimates, usages(profile, names), strict=True):
        head = [target, program, profile.name, frame.array_model]
        rows += [[*head, *_kernel_cells(kernel)] for kernel in usage.kernels]
        times = [*(usage.sum(part) for part in _TIMES[:-1]), usage.wait_ns]
        rows.append(
            [
                *head,
                TOTAL,
                _microseconds(frame.total_ns),
                frame.ddr_bytes,
                frame.macs,
                *map(_microseconds, times),
                frame.launches,
                frame.dispatches,
                _share(usage.hidden_share),
                usage.limit,
                profile.plan.peak,
            ]
        )
    return rows


def _kernel_cells(kernel: KernelUsage) -> list[object]:
    return [
        kernel.name,
        _microseconds(kernel.total_ns),
        kernel.ddr_bytes,
        kernel.macs,
        *(_microseconds(getattr(kernel, part)) for part in _TIMES),
        kernel.launches,
        kernel.dispatches,
        _share(kernel.hidden_share),
        kernel.bound_by,
        kernel.sram_top,
    ]


def _microseconds(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:.3f}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
