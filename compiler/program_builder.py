"""One model, one target, its profiles: from IR to program bytes, verified before it leaves.

Reads top to bottom: fuse, schedule, constants, quantisation table, memory plan, lower, verify. Invariant:
profiles share kernels, constants and table; only sizes and offsets differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.constants import Constants, collect_constants
from compiler.errors import InternalError
from compiler.importer import SourceGraph, build_graph
from compiler.ir import Graph
from compiler.lower import Stream, lower
from compiler.memory import MemoryPlan, plan_memory
from compiler.memory.buffers import naive_peak
from compiler.passes.pipeline import Fused, fuse
from compiler.passes.quant_table import QuantTable, QuantTableBuilder
from compiler.schedule import Schedule, schedule
from compiler.timing import FrameEstimate, estimate
from compiler.verifier import verify_program
from contracts.npu import NpuSpec, OutputTensor, Profile, Program, ProgramWriter

PROLOGUE = "prologue"


@dataclass(frozen=True)
class FusedProfile:
    """The part of the work that no target changes."""

    name: str
    imported: Graph
    fused: Fused


@dataclass(frozen=True)
class CompiledProfile:
    """Everything that reports may ask about one profile."""

    name: str
    schedule: Schedule
    plan: MemoryPlan
    stream: Stream
    naive_sram: int
    ideal: FrameEstimate
    u85_like: FrameEstimate

    @property
    def estimates(self) -> tuple[FrameEstimate, FrameEstimate]:
        """Both array models."""
        return self.ideal, self.u85_like


@dataclass(frozen=True)
class CompiledProgram:
    """Program bytes and the facts behind them."""

    target: str
    data: bytes
    names: tuple[str, ...]
    profiles: tuple[CompiledProfile, ...]
    fused: Fused


def fuse_profiles(source: SourceGraph, sizes: Sequence[tuple[int, int]]) -> list[FusedProfile]:
    """Import and fuse once for each input size (height, width)."""
    profiles = []
    for height, width in sizes:
        graph = build_graph(source, height, width)
        profiles.append(FusedProfile(f"{height}x{width}", graph, fuse(graph)))
    return profiles


def build_program(profiles: Sequence[FusedProfile], spec: NpuSpec, build_id: bytes) -> CompiledProgram:
    """Compile for one target; raises CompileError."""
    first = schedule(profiles[0].fused.graph)
    constants = collect_constants(first, spec.alignment)
    builder = QuantTableBuilder(spec)
    quant = builder.run(first.graph)
    names = (*(kernel.name for kernel in first.kernels), PROLOGUE)
    compiled = [_compile_profile(profile, spec, constants, quant, names) for profile in profiles]
    writer = ProgramWriter(spec.name, build_id)
    for profile in compiled:
        writer.add_profile(_profile(profile), profile.stream.commands)
    data = writer.to_bytes(names, constants.data, quant.data)
    findings = verify_program(Program.open(data), spec)
    if findings:
        raise InternalError("verifier", str(findings[0]), "report this model")
    return CompiledProgram(spec.name, data, names, tuple(compiled), profiles[0].fused)


def _compile_profile(
    profile: FusedProfile, spec: NpuSpec, constants: Constants, quant: QuantTable, names: tuple[str, ...]
) -> CompiledProfile:
    plan_of = schedule(profile.fused.graph)
    if tuple(kernel.name for kernel in plan_of.kernels) != names[:-1]:
        raise InternalError(profile.name, "profiles have different kernels", "report this model")
    plan = plan_memory(plan_of, constants, len(quant.data), spec)
    stream = lower(plan_of, plan, constants, quant, {name: index for index, name in enumerate(names)})
    frame = stream.commands[stream.n_prologue :]
    ideal, u85_like = (estimate(frame, names, spec, spec.array_model(name)) for name in ("ideal", "u85-like"))
    return CompiledProfile(profile.name, plan_of, plan, stream, naive_peak(profile.imported), ideal, u85_like)


def _profile(compiled: CompiledProfile) -> Profile:
    graph, plan = compiled.schedule.graph, compiled.plan
    source = graph.values[graph.input]
    outputs = []
    for name, value_name in graph.outputs:
        value = graph.values[value_name]
        offset = plan.value_homes[value_name].offset
        outputs.append(OutputTensor(name, *value.shape, value.scale, value.zero_point, offset))
    return Profile(
        name=compiled.name,
        input_height=source.height,
        input_width=source.width,
        input_channels=source.channels,
        input_scale=source.scale,
        input_zero_point=source.zero_point,
        input_offset=plan.value_homes[graph.input].offset,
        outputs=tuple(outputs),
        n_prologue=compiled.stream.n_prologue,
        ddr_extent=plan.ddr_extent,
        ddr_bytes=compiled.ideal.ddr_bytes,
        sram_peak=plan.peak,
    )
