"""What a compilation says about itself: values for callers, JSON for scripts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from compiler.coding import Coding
from compiler.importer import SourceGraph
from compiler.measures.compiled import profile_answers, spilled
from compiler.passes.base import Unfused
from compiler.program_builder import CompiledProfile, CompiledProgram
from contracts.npu import chip_of, core_name, load_spec


@dataclass(frozen=True)
class ProfileReport:
    """One input size on one target. Latency is milliseconds by array model, launches included."""

    name: str
    latency_ms: Mapping[str, float]
    macs: int
    ddr_bytes: int
    ddr_intermediate_bytes: int
    sram_peak: int
    sram_bound: int
    naive_sram: int
    planner: str
    weights_resident: bool
    reasons: tuple[str, ...]
    answers: tuple[tuple[str, str], ...]
    """Five questions and answers: fits, time, limited by, on the CPU, not fused."""

    bare_ms: Mapping[str, float]
    """Latency without launches and dispatches, by array model."""

    launches: int
    dispatches: int
    dma_hidden_share: Mapping[str, float]
    ddr_efficiency: Mapping[str, float]
    segments: tuple[tuple[str, str, int], ...]
    """First kernel, last kernel, rows of a stripe; empty when operators run whole."""

    notes: tuple[str, ...]
    sram_gap: float = 0.0
    """How far the peak lies above the lower bound, as a share of it."""

    effort: str = "fast"


@dataclass(frozen=True)
class ProgramReport:
    """One program on one target. Peaks and traffic are the maximum over profiles."""

    program: str
    target: str
    kernels: int
    operators_before: int
    launches: int
    size: int
    sram_peak: int
    naive_sram: int
    ddr_bytes: int
    latency_ms: Mapping[str, Mapping[str, float]]
    unfused: tuple[Unfused, ...]
    changes: tuple[str, ...]
    profiles: tuple[ProfileReport, ...]
    coding: Coding
    core: str = "big"
    """Which core of the target runs it: big or little."""


@dataclass(frozen=True)
class CompileReport:
    """A whole bundle."""

    path: str
    build_id: str
    digest: str
    size: int
    release_version: str
    security_epoch: int
    programs: tuple[ProgramReport, ...]
    little_bytes: int = 0
    """What the little kernels add to the bundle."""

    notes: tuple[str, ...] = ()
    """What concerns no single program, for example why a target has no little kernels."""

    def program(self, target: str, name: str = "model") -> ProgramReport:
        """The report of one program; raises KeyError."""
        for report in self.programs:
            if (report.target, report.program) == (target, name):
                return report
        raise KeyError(f"no program {name!r} for {target!r}")

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return asdict(self)


def report_program(name: str, source: SourceGraph, compiled: CompiledProgram) -> ProgramReport:
    """The facts of one compiled program."""
    profiles = tuple(_report_profile(compiled, profile) for profile in compiled.profiles)
    return ProgramReport(
        program=name,
        target=chip_of(compiled.target),
        core=core_name(compiled.target),
        kernels=len(compiled.names) - 1,
        operators_before=_operator_count(source),
        launches=max(profile.ideal.launches for profile in compiled.profiles),
        size=len(compiled.data),
        sram_peak=max(profile.sram_peak for profile in profiles),
        naive_sram=max(profile.naive_sram for profile in profiles),
        ddr_bytes=max(profile.ddr_bytes for profile in profiles),
        latency_ms={profile.name: profile.latency_ms for profile in profiles},
        unfused=compiled.fused.unfused,
        changes=compiled.fused.changes,
        profiles=profiles,
        coding=compiled.coding,
    )


def _operator_count(source: SourceGraph) -> int:
    """Operators that compute or move; quantisation nodes are not counted."""
    return sum(node.operator not in ("QuantizeLinear", "DequantizeLinear") for node in source.nodes)


def _report_profile(program: CompiledProgram, profile: CompiledProfile) -> ProfileReport:
    plan, frames = profile.plan, profile.estimates
    spec = load_spec(program.target)
    return ProfileReport(
        name=profile.name,
        latency_ms={frame.array_model: round(frame.milliseconds, 6) for frame in frames},
        macs=profile.ideal.macs,
        ddr_bytes=profile.ideal.ddr_bytes,
        ddr_intermediate_bytes=spilled(profile),
        sram_peak=plan.peak,
        sram_bound=plan.bound,
        naive_sram=profile.naive_sram,
        planner=f"{plan.method}: {plan.proof}",
        weights_resident=plan.weights_resident,
        reasons=plan.reasons,
        answers=profile_answers(program, profile),
        bare_ms={frame.array_model: round(frame.bare_milliseconds, 6) for frame in frames},
        launches=profile.ideal.launches,
        dispatches=profile.ideal.dispatches,
        dma_hidden_share={frame.array_model: round(frame.dma_hidden_share, 6) for frame in frames},
        ddr_efficiency={frame.array_model: round(frame.ddr_efficiency(spec), 6) for frame in frames},
        segments=profile.segments,
        notes=profile.notes,
        sram_gap=round(plan.gap, 6),
        effort=profile.effort,
    )
