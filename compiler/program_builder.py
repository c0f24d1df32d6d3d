"""One model, one target, its profiles: from IR to program bytes, verified before it leaves.

Reads top to bottom: fuse, schedule, constants, quantisation table, memory plan, lower, verify. Invariants:
profiles of one variant (width) share kernels, constants and table; only sizes and offsets differ. All variants share
one section of constants and one table, at the same SRAM offset in every profile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.coding import Coding, chosen
from compiler.constants import Constants, collect_variants
from compiler.depth_first import DepthFirst, plan_depth_first
from compiler.depth_first.stream import lower_stripes
from compiler.entropy import expanded
from compiler.errors import DoesNotFit, InternalError, UnsupportedModel
from compiler.importer import SourceGraph, build_graph
from compiler.ir import Graph, State
from compiler.lower import Lowering, Stream, lower
from compiler.memory import MemoryPlan, plan_memory
from compiler.memory.buffers import naive_peak
from compiler.memory.planner import Patience
from compiler.operators.placement import RESIDUAL_FIRST_DRIVER, older
from compiler.options import DEFAULT, CompileOptions
from compiler.passes.old_driver import OldDriver
from compiler.passes.pipeline import NEEDED, OLD_PASSES, PASSES, Fused, fuse
from compiler.passes.quant_table import QuantTable, QuantTableBuilder
from compiler.schedule import Schedule, schedule
from compiler.timing import FrameEstimate, estimate
from compiler.verifier import verify_program
from contracts.npu import NpuSpec, OutputTensor, Profile, Program, ProgramWriter, StateTensor

PROLOGUE = "prologue"
WORTH_DDR, WORTH_TIME = 0.25, 0.06
"""Stripes are worth this much more time when they spare this share of the DDR traffic, which others want too."""


@dataclass(frozen=True)
class FusedProfile:
    """The part of the work that no target changes."""

    name: str
    imported: Graph
    fused: Fused
    variant: str = ""


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
    segments: tuple[tuple[str, str, int], ...]
    """First and last kernel and the rows of a stripe of each depth-first segment; empty when operators run whole."""

    notes: tuple[str, ...]
    effort: str = "fast"
    """How long the memory plan was searched for."""

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
    coding: Coding
    """How the file holds the constants."""


def fuse_profiles(
    source: SourceGraph, sizes: Sequence[tuple[int, int]], options: CompileOptions = DEFAULT
) -> list[FusedProfile]:
    """Import and fuse once for each input size (height, width)."""
    old = options.driver is not None and older(options.driver, RESIDUAL_FIRST_DRIVER)
    passes = (OLD_PASSES if old else PASSES) if options.fuse else NEEDED
    if options.driver is not None:
        passes = (*passes, OldDriver(options.driver))
    profiles = []
    for height, width in sizes:
        graph = build_graph(source, height, width)
        name = f"{height}x{width}" if options.streams == 1 else f"{height}x{width}x{options.streams}"
        profiles.append(FusedProfile(name, graph, fuse(graph, passes)))
    return profiles


def build_program(
    profiles: Sequence[FusedProfile], spec: NpuSpec, build_id: bytes, options: CompileOptions = DEFAULT
) -> CompiledProgram:
    """Compile for one target; raises CompileError."""
    if options.streams > 1 and any(profile.fused.graph.states for profile in profiles):
        reason = f"{options.streams} streams of a net that keeps states"
        raise UnsupportedModel("streams", reason, "compile it for one stream, each needs states of its own")
    variants = list(dict.fromkeys(profile.variant for profile in profiles))
    first = [next(profile for profile in profiles if profile.variant == variant) for variant in variants]
    schedules = [schedule(profile.fused.graph) for profile in first]
    constants = dict(zip(variants, collect_variants(schedules, spec.alignment), strict=True))
    tables = dict(zip(variants, _tables(schedules, spec), strict=True))
    kernels = dict.fromkeys(kernel.name for plan in schedules for kernel in plan.kernels)
    names = (*kernels, PROLOGUE)
    compiled = []
    for profile in profiles:
        own, table = constants[profile.variant], tables[profile.variant]
        compiled.append(_compile_profile(profile, spec, own, table, names, options))
    writer = ProgramWriter(spec.name, build_id)
    for done in compiled:
        writer.add_profile(_profile(done, options.streams), done.stream.commands)
    shared = constants[variants[0]].data
    section, coding = chosen(shared, spec, options.entropy)
    stored = shared if section is None else section
    data = writer.to_bytes(names, stored, tables[variants[0]].data, coded=section is not None)
    findings = verify_program(expanded(Program.open(data)), spec)
    if findings:
        raise InternalError("verifier", str(findings[0]), "report this model")
    return CompiledProgram(spec.name, data, names, tuple(compiled), profiles[0].fused, coding)


def _tables(schedules: Sequence[Schedule], spec: NpuSpec) -> list[QuantTable]:
    """The variants' tables, behind each other in one zone."""
    builder = QuantTableBuilder(spec)
    tables = [builder.run(plan.graph) for plan in schedules]
    data = b"".join(table.data for table in tables)
    if len(data) > spec.quant_zone_bytes:
        reason = f"quantisation tables of {len(data)} bytes, the zone has {spec.quant_zone_bytes}"
        raise DoesNotFit("model", reason, "use fewer widths, channels or convolutions")
    moved, start = [], 0
    for table in tables:
        moved.append(QuantTable(data, {name: start + offset for name, offset in table.offsets.items()}))
        start += len(table.data)
    return moved


@dataclass(frozen=True)
class _Way:
    """One way to run a profile."""

    plan: MemoryPlan
    stream: Stream
    ideal: FrameEstimate
    u85_like: FrameEstimate
    segments: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True)
class _Work:
    schedule: Schedule
    constants: Constants
    quant: QuantTable
    names: tuple[str, ...]
    spec: NpuSpec
    options: CompileOptions
    patience: Patience

    def whole(self) -> _Way:
        """Operator by operator."""
        options, table = self.options, len(self.quant.data)
        plan = plan_memory(
            self.schedule,
            self.constants,
            table,
            self.spec,
            share=options.plan,
            streams=options.streams,
            patience=self.patience,
        )
        return self._way(plan, lower(self._lowering(plan)))

    def striped(self, found: DepthFirst) -> _Way:
        """Stripe by stripe."""
        stream = lower_stripes(self._lowering(found.plan), found.layout, found.ddr)
        return self._way(found.plan, stream, found.segments)

    def _lowering(self, plan: MemoryPlan) -> Lowering:
        indices = {name: index for index, name in enumerate(self.names)}
        return Lowering(self.schedule, plan, self.constants, self.quant, indices, self.spec, self.options.streams)

    def _way(self, plan: MemoryPlan, stream: Stream, segments: tuple[tuple[str, str, int], ...] = ()) -> _Way:
        frame = stream.commands[stream.n_prologue :]
        ideal = estimate(frame, self.names, self.spec, self.spec.array_model("ideal"))
        u85_like = estimate(frame, self.names, self.spec, self.spec.array_model("u85-like"))
        return _Way(plan, stream, ideal, u85_like, segments)


def _compile_profile(
    profile: FusedProfile,
    spec: NpuSpec,
    constants: Constants,
    quant: QuantTable,
    names: tuple[str, ...],
    options: CompileOptions,
) -> CompiledProfile:
    plan_of = schedule(profile.fused.graph)
    if not {kernel.name for kernel in plan_of.kernels} <= set(names[:-1]):
        raise InternalError(profile.name, "profiles have different kernels", "report this model")
    way, notes = _best_way(_Work(plan_of, constants, quant, names, spec, options, options.patience()))
    return CompiledProfile(
        name=profile.name,
        schedule=plan_of,
        plan=way.plan,
        stream=way.stream,
        naive_sram=naive_peak(profile.imported),
        ideal=way.ideal,
        u85_like=way.u85_like,
        segments=way.segments,
        notes=notes,
        effort=options.effort,
    )


def _best_way(work: _Work) -> tuple[_Way, tuple[str, ...]]:
    """Stripes or whole operators, and why: the faster one, but stripes also where they spare the shared DDR much
    traffic for little time, or where the caller named their height.
    """
    if not (work.options.depth_first and work.options.plan):
        return work.whole(), ()
    table = len(work.quant.data)
    found = plan_depth_first(work.schedule, work.constants, table, work.spec, work.options, work.patience)
    if found is None:
        return work.whole(), ("depth-first: no stripes fit, operators run whole",)
    striped = work.striped(found)
    try:
        whole = work.whole()
    except DoesNotFit:
        return striped, ("depth-first: the only way that fits",)
    facts = f"stripes {_facts(striped)}, whole operators {_facts(whole)}"
    if work.options.stripe_rows is not None:
        return striped, (f"depth-first: stripes as asked, {facts}",)
    spared = striped.ideal.ddr_bytes <= (1 - WORTH_DDR) * whole.ideal.ddr_bytes
    cheap = striped.ideal.total_ns <= (1 + WORTH_TIME) * whole.ideal.total_ns
    if striped.ideal.total_ns < whole.ideal.total_ns or (spared and cheap):
        return striped, (f"depth-first: {facts}",)
    return whole, (f"depth-first: not worth it, {facts}",)


def _facts(way: _Way) -> str:
    return f"{way.ideal.milliseconds:.3f} ms and {way.ideal.ddr_bytes / 1e6:.2f} MB of DDR traffic"


def _profile(compiled: CompiledProfile, streams: int) -> Profile:
    """The profile's facts; the maps of several streams lie below each other and count as one tall map."""
    graph, plan = compiled.schedule.graph, compiled.plan
    source = graph.values[graph.input]
    outputs = []
    kept = {state.output for state in graph.states}
    for name, value_name in graph.outputs:
        if name in kept:
            continue
        value = graph.values[value_name]
        offset = plan.value_homes[value_name].offset
        shape = value.height * streams, value.width, value.channels
        outputs.append(OutputTensor(name, *shape, value.scale, value.zero_point, offset))
    return Profile(
        name=compiled.name,
        input_height=source.height * streams,
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
        streams=streams,
        states=tuple(_state(graph, state, plan) for state in graph.states),
    )


def _state(graph: Graph, state: State, plan: MemoryPlan) -> StateTensor:
    value = graph.values[state.value]
    offset = plan.value_homes[state.value].offset
    return StateTensor(state.name, *value.shape, value.scale, value.zero_point, offset)
