"""The same net with one idea of the compiler after the other switched on, and what each is worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.compiling.measure import Compiled, compiled
from benchmarks.reference_nets import NetShape
from compiler.errors import CompileError
from compiler.options import CompileOptions
from edgeloop.figures import Figure

NOISE = 0.0005
"""Share by which two figures may differ and count as equal."""

STEPS: tuple[tuple[str, CompileOptions], ...] = (
    ("naive", CompileOptions(fuse=False, plan=False, depth_first=False, double_buffer=False)),
    ("fused", CompileOptions(fuse=True, plan=False, depth_first=False, double_buffer=False)),
    ("planned", CompileOptions(fuse=True, plan=True, depth_first=False, double_buffer=False)),
    ("depth-first", CompileOptions(fuse=True, plan=True, depth_first=True, double_buffer=False)),
    ("double-buffered", CompileOptions(fuse=True, plan=True, depth_first=True, double_buffer=True)),
)


@dataclass(frozen=True)
class Row:
    """One step's figures."""

    step: str
    launches: int
    dispatches: int
    sram_mib: float
    ddr_mb: float
    ddr_efficiency: float
    hidden: float
    ideal_ms: float
    u85_ms: float
    reasons: tuple[str, ...]


def row(step: str, program: Compiled) -> Row:
    """What one compilation amounts to."""
    ideal, u85 = program.timed("ideal"), program.timed("u85-like")
    return Row(
        step=step,
        launches=program.launches,
        dispatches=program.dispatches,
        sram_mib=program.profile.sram_peak / 2**20,
        ddr_mb=program.estimated("ideal").ddr_bytes / 1e6,
        ddr_efficiency=ideal.ddr_efficiency,
        hidden=ideal.hidden,
        ideal_ms=ideal.total,
        u85_ms=u85.total,
        reasons=tuple(text for profile in program.report.profiles for text in (*profile.reasons, *profile.notes)),
    )


@dataclass(frozen=True)
class Failed:
    """A step that did not compile, and the error."""

    step: str
    error: str


def rows(shape: NetShape, tell: Callable[[str], None] = lambda _: None) -> list[Row | Failed]:
    """All steps of one net."""
    made: list[Row | Failed] = []
    for step, options in STEPS:
        tell(f"{shape.name} {step}")
        try:
            made.append(row(step, compiled(shape, options)))
        except CompileError as error:
            made.append(Failed(step, str(error)))
    return made


def figures(shape: NetShape, made: Sequence[Row | Failed]) -> list[Figure]:
    """Printed for each step; that a step helps, or why it does not, is held against the promise."""
    found: list[Figure] = []
    before: Row | None = None
    for after in made:
        name = f"{shape.name}.ablation.{after.step}"
        if isinstance(after, Failed):
            found.append(Figure(f"{name}.error", after.error, "", "compiles", False))
            continue
        found += [
            _printed(f"{name}.launches", after.launches, ""),
            _printed(f"{name}.dispatches", after.dispatches, ""),
            _printed(f"{name}.sram_mib", round(after.sram_mib, 3), "MiB"),
            _printed(f"{name}.ddr_mb", round(after.ddr_mb, 3), "MB"),
            _printed(f"{name}.ddr_efficiency", round(100 * after.ddr_efficiency, 1), "% of the bus while busy"),
            _printed(f"{name}.dma_hidden", round(100 * after.hidden, 1), "% of transfer time"),
            _printed(f"{name}.ideal_ms", round(after.ideal_ms, 3), "ms"),
            _printed(f"{name}.u85_ms", round(after.u85_ms, 3), "ms"),
        ]
        if before is not None:
            verdict, ok = judged(before, after)
            found.append(Figure(f"{name}.helps", verdict, "", "it helps, or the reason is given", ok))
        before = after
    return found


def judged(before: Row, after: Row) -> tuple[str, bool]:
    """What became better and what worse, or the compiler's reason why nothing became better."""
    changes = (
        ("launches", before.launches, after.launches),
        ("DDR MB", before.ddr_mb, after.ddr_mb),
        ("SRAM MiB", before.sram_mib, after.sram_mib),
        ("ms", before.ideal_ms, after.ideal_ms),
    )
    gains = [f"{label} {old:.4g} -> {new:.4g}" for label, old, new in changes if new < old * (1 - NOISE)]
    losses = [f"{label} {old:.4g} -> {new:.4g}" for label, old, new in changes if new > old * (1 + NOISE)]
    if gains:
        return "; ".join(gains) + (f"; worse: {', '.join(losses)}" if losses else ""), True
    if after.reasons:
        return f"no: {'; '.join(after.reasons)}", True
    return "no, and no reason is given", False


def _printed(name: str, value: float | int, unit: str) -> Figure:
    return Figure(name, value, unit, "printed", True)
