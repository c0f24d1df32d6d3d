"""Bars: where each kernel's time goes under both array models, and the physical floors beside the estimates."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.html.svg import Scale, line, picture, rect, text
from compiler.measures.kernels import FrameUsage, KernelUsage
from compiler.measures.texts import milliseconds, size
from compiler.measures.texts import tick as told_tick
from contracts.npu import NpuSpec

PARTS = (("compute", "computing"), ("wait", "waiting for DDR"), ("launch", "launch"), ("dispatch", "dispatch"))
_LABEL, _PANEL, _VALUE, _TOP = 148, 370, 82, 44


def kernel_bars(identifier: str, where: str, frames: Sequence[FrameUsage]) -> str:
    """A panel for each array model on one scale, a row for each kernel."""
    longest = max((kernel.total_ns for frame in frames for kernel in frame.kernels), default=0.0)
    names = [kernel.name for kernel in frames[0].kernels]
    pitch = 20.0 if len(names) <= 30 else 15.0
    height = _TOP + len(names) * pitch + 8
    body: list[str] = []
    for row, name in enumerate(names):
        shown = name if len(name) <= 21 else f"{name[:20]}…"
        body.append(text(shown, _LABEL - 8, _TOP + row * pitch + pitch / 2 + 4, "name", text_anchor="end"))
    for panel, frame in enumerate(frames):
        left = _LABEL + panel * (_PANEL + _VALUE + 20)
        x = Scale(0, longest, left, left + _PANEL)
        body.append(text(f"{frame.array_model}: {milliseconds(frame.total_ns)} a frame", left, 14, "head"))
        for tick in x.ticks(4):
            body.append(line(x(tick), _TOP - 8, x(tick), height - 4, "grid"))
            body.append(text(told_tick(tick), x(tick), _TOP - 12, "tick", text_anchor="middle"))
        for row, kernel in enumerate(frame.kernels):
            body += _kernel(kernel, x, _TOP + row * pitch, pitch)
    width = _LABEL + len(frames) * (_PANEL + _VALUE + 20)
    title = f"Where the time of {where} goes, kernel by kernel"
    return picture(identifier, title, "The same figures are in the table of kernels.", width, height, body)


def _kernel(kernel: KernelUsage, x: Scale, top: float, pitch: float) -> list[str]:
    parts, done = [], 0.0
    for part, meaning in PARTS:
        time = float(getattr(kernel, f"{part}_ns"))
        if time > 0:
            left, right = x(done), x(done + time)
            hint = f"{kernel.name}: {meaning} {milliseconds(time)}"
            parts.append(rect(left, top + 2, right - left, pitch - 4, f"t {part}", hint))
            done += time
    return [*parts, text(milliseconds(kernel.total_ns), x(done) + 6, top + pitch / 2 + 4, "tick")]


def floors(spec: NpuSpec, frame: FrameUsage, ddr_bytes: int) -> tuple[tuple[str, str, float], ...]:
    """What no schedule can beat, and what the array's shape adds: label, class, nanoseconds."""
    macs = frame.sum("macs")
    return (
        ("MACs at the array's peak rate", "floor", macs / spec.peak_macs_per_ns),
        ("MACs as this array is filled", "compute", frame.sum("compute_ns")),
        (f"{size(ddr_bytes)} at peak bandwidth", "floor", ddr_bytes / spec.ddr_bytes_per_ns),
        ("transfers as estimated", "transfer", frame.sum("transfer_ns")),
        (f"{frame.sum('launches'):.0f} launches", "launch", frame.sum("launch_ns")),
        (f"{frame.sum('dispatches'):.0f} dispatches", "dispatch", frame.sum("dispatch_ns")),
        ("waiting for DDR", "wait", frame.wait_ns),
        ("estimated frame", "whole", frame.total_ns),
    )


def roofline(identifier: str, where: str, spec: NpuSpec, frames: Sequence[FrameUsage], ddr_bytes: int) -> str:
    """Floors and estimate, a panel for each array model on one scale."""
    label, pitch = 210, 20.0
    rows = [floors(spec, frame, ddr_bytes) for frame in frames]
    longest = max(time for panel in rows for _, _, time in panel) or 1.0
    height = _TOP - 20 + len(rows[0]) * pitch + 8
    width = label + len(frames) * (_PANEL - 30 + _VALUE + 20)
    body = [
        text(name, label - 8, _TOP - 20 + row * pitch + pitch / 2 + 4, "name", text_anchor="end")
        for row, (name, _, _) in enumerate(rows[0])
    ]
    for panel, (frame, values) in enumerate(zip(frames, rows, strict=True)):
        left = label + panel * (_PANEL - 30 + _VALUE + 20)
        x = Scale(0, longest, left, left + _PANEL - 30)
        body.append(text(frame.array_model, left, 14, "head"))
        for row, (name, class_, time) in enumerate(values):
            top = _TOP - 20 + row * pitch
            hint = f"{name}: {milliseconds(time)}"
            body.append(rect(x.start, top + 3, x(time) - x.start, pitch - 6, f"t {class_}", hint))
            body.append(text(milliseconds(time), x(time) + 6, top + pitch / 2 + 4, "tick"))
    title = f"Roofline of {where}: floors beside the estimate"
    return picture(identifier, title, "The same figures are in the table below.", width, height, body)
