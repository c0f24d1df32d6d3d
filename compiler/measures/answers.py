"""The five questions that a deployment engineer asks first, answered in one line each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler.measures.kernels import FrameUsage
from compiler.measures.texts import milliseconds, share, size
from compiler.measures.views import ProfileView, ProgramView
from contracts.npu import NpuSpec

QUESTIONS = ("fits", "time", "limited by", "on the CPU", "not fused")


@dataclass(frozen=True)
class Memory:
    """What the planner reached: bytes, and why something had to leave SRAM."""

    peak: int
    bound: int | None
    in_ddr: int
    reasons: Sequence[str]


@dataclass(frozen=True)
class Left:
    """What did not map: kernels on the CPU and edges that stayed in memory, each with its reason."""

    host: Sequence[tuple[str, str]]
    edges: Sequence[Mapping[str, str]]


def answers(
    spec: NpuSpec, frames: Sequence[FrameUsage], memory: Memory, left: Left, streams: int = 1
) -> tuple[tuple[str, str], ...]:
    """Pairs of question and answer, always five, for one program and profile. ``streams``: frames of one run."""
    lines = (
        _fits(spec, memory),
        _time(frames, streams),
        _limit(spec, frames[-1]),
        _host(left.host),
        _edges(left.edges),
    )
    return tuple(zip(QUESTIONS, lines, strict=True))


def _fits(spec: NpuSpec, memory: Memory) -> str:
    head = f"SRAM {size(memory.peak)} of {size(spec.sram_bytes)}{_gap(spec, memory)}"
    if memory.in_ddr:
        why = f", because {memory.reasons[0]}" if memory.reasons else ""
        return f"partly: {head}; {size(memory.in_ddr)} of intermediates in DDR{why}"
    more = f"; {memory.reasons[0]}" if memory.reasons else "; no intermediate in DDR"
    return f"yes: {head}{more}"


def _gap(spec: NpuSpec, memory: Memory) -> str:
    if not memory.bound:
        return ""
    if memory.peak - memory.bound < spec.alignment:
        return ", the least that these buffers need"
    return f", no placement of these buffers needs less than {size(memory.bound)}"


def streams_of(profile: str) -> int:
    """How many streams a profile runs at once: ``360x640x4`` has four."""
    match = re.match(r"^\d+x\d+x(\d+)", profile)
    return int(match[1]) if match else 1


def _time(frames: Sequence[FrameUsage], streams: int) -> str:
    several = f" for {streams} frames" if streams > 1 else ""
    parts = (
        f"{milliseconds(frame.total_ns)}{several} on the {frame.array_model} array "
        f"({streams * 1e9 / frame.total_ns:.1f} frames/s)"
        for frame in reversed(frames)
        if frame.total_ns > 0
    )
    return ", ".join(parts)


def _limit(spec: NpuSpec, frame: FrameUsage) -> str:
    parts = (
        ("compute", frame.sum("compute_ns")),
        ("waiting for DDR", frame.wait_ns),
        (f"{frame.sum('launches'):.0f} launches", frame.sum("launch_ns")),
        (f"{frame.sum('dispatches'):.0f} dispatches", frame.sum("dispatch_ns")),
    )
    ranked = sorted(parts, key=lambda part: -part[1])
    told = (f"{name} {milliseconds(time)} ({share(time / frame.total_ns)})" for name, time in ranked if time > 0)
    floor = frame.sum("macs") / spec.peak_macs_per_ns
    return f"{', '.join(told)}; the array's peak rate alone needs {milliseconds(floor)}"


def _host(kernels: Sequence[tuple[str, str]]) -> str:
    if not kernels:
        return "nothing, every operator runs on the NPU"
    return "; ".join(f"{name}: {reason}" for name, reason in kernels)


def _edges(edges: Sequence[Mapping[str, str]]) -> str:
    if not edges:
        return "none, every edge that a pass looked at is fused"
    first = edges[0]
    head = f"{first['producer']} → {first['consumer']}: {first['reason']}"
    return head if len(edges) == 1 else f"{len(edges)} edges, first {head}"


def view_answers(program: ProgramView, view: ProfileView) -> tuple[tuple[str, str], ...]:
    """The five answers of a profile that was read from a file."""
    memory = Memory(
        view.profile.sram_peak, view.plan.get("lower_bound"), view.spilled, tuple(view.plan.get("reasons", ()))
    )
    reasons = {str(entry.get("name")): str(entry.get("reason", "")) for entry in program.placement}
    host = [(name, reasons.get(name) or "no reason recorded") for name in view.host_kernels]
    frames, streams = [frame.usage for frame in view.frames], view.profile.streams
    return answers(view.spec, frames, memory, Left(host, program.unfused), streams)
