"""The same measures for a program that was compiled a moment ago, from what the compiler still holds."""

from __future__ import annotations

from compiler.ir import Graph
from compiler.measures.answers import Left, Memory, answers, streams_of
from compiler.measures.kernels import FrameUsage, frame_usage
from compiler.operators import place_operators
from compiler.operators.placement import host_reason
from compiler.program_builder import CompiledProfile, CompiledProgram
from compiler.schedule import Kernel
from contracts.npu import Space, load_spec

NPU, CPU = "NPU", "CPU"


def usages(profile: CompiledProfile, names: tuple[str, ...]) -> tuple[FrameUsage, ...]:
    """The frame under each array model."""
    commands = profile.stream.commands[profile.stream.n_prologue :]
    return tuple(frame_usage(commands, frame, names) for frame in profile.estimates)


def placement(kernel: Kernel) -> tuple[str, str]:
    """Where a kernel runs, and why when it is the CPU."""
    reasons = [reason for step in kernel.steps if (reason := host_reason(step))]
    return (CPU, "; ".join(dict.fromkeys(reasons))) if reasons else (NPU, "")


def operators(graph: Graph) -> list[dict[str, object]]:
    """Every operator with its nodes, where it runs and why; plain values."""
    return [
        {
            "operator": placed.operator,
            "nodes": list(placed.origin),
            "unit": placed.placement.value,
            "reason": placed.reason,
        }
        for placed in place_operators(graph)
    ]


def spilled(profile: CompiledProfile) -> int:
    """Bytes of intermediates that live in DDR."""
    plan, graph = profile.plan, profile.schedule.graph
    outside = {*graph.inputs, *(value for _, value in graph.outputs)}
    inside = [buffer for buffer in plan.buffers if buffer.values and not outside & set(buffer.values)]
    return sum(buffer.size for buffer in inside if plan.homes[buffer.name].space == Space.DDR)


def profile_answers(program: CompiledProgram, profile: CompiledProfile) -> tuple[tuple[str, str], ...]:
    """The five answers of one profile."""
    plan = profile.plan
    placed = [(kernel.name, *placement(kernel)) for kernel in profile.schedule.kernels]
    left = Left(
        host=[(name, reason) for name, unit, reason in placed if unit == CPU],
        edges=[vars(edge) for edge in program.fused.unfused],
    )
    memory = Memory(plan.peak, plan.bound, spilled(profile), plan.reasons)
    return answers(load_spec(program.target), usages(profile, program.names), memory, left, streams_of(profile.name))
