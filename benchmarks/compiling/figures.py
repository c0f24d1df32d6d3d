"""One net's program as figures: against the promises of its net, with the floor and the rival beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.compiling.measure import Compiled, CompileTime
from benchmarks.peers.vela.results import NetResult
from contracts.npu import load_spec
from edgeloop.figures import Figure, at_most, below, exactly

COMPILE_SECONDS = 3.0
IDEAL_OVER_FLOOR = 1.06
ROUNDING = 1e-9


@dataclass(frozen=True)
class Promise:
    """What is promised of one net; None where a figure is only printed."""

    kernels: int | None = None
    sram_bytes: int | None = None
    ddr_mb: float | None = None
    ideal: bool = False
    bare_u85_ms: float | None = None


PROMISES: dict[str, Promise] = {
    "c88x8": Promise(kernels=12, sram_bytes=4 << 20, ddr_mb=6.0, ideal=True, bare_u85_ms=52.5),
    "c64x16": Promise(ddr_mb=8.0, bare_u85_ms=46.0),
    "c32x8": Promise(ddr_mb=5.0, bare_u85_ms=6.6),
}


def figures(program: Compiled, times: CompileTime, vela: NetResult | None) -> list[Figure]:
    """All figures of one net; `times` are the medians of its compilations."""
    promise = PROMISES.get(program.shape.name, Promise())
    return [
        *_kernels(program, promise),
        *_memory(program, promise),
        *_time(program, promise),
        *([] if vela is None else _rival(program.shape.name, vela)),
        at_most(f"{program.shape.name}.compile_wall_s", round(times.wall, 2), "s", COMPILE_SECONDS),
        _printed(f"{program.shape.name}.compile_cpu_s", round(times.cpu, 2), "s of CPU"),
    ]


def _kernels(program: Compiled, promise: Promise) -> list[Figure]:
    name, spec = program.shape.name, load_spec(program.program.target)
    launch_ms = round(program.launches * spec.launch_us / 1000, 3)
    limit = promise.kernels
    return [
        Figure(f"{name}.operators", program.shape.training_operators, "", program.shape.counting(), True),
        _held(f"{name}.kernels", program.launches, "launches a frame", limit),
        _held(f"{name}.launch_ms", launch_ms, "ms", None if limit is None else 0.94),
        _printed(f"{name}.dispatches", program.dispatches, "stripes that re-enter a kernel"),
        _printed(f"{name}.dispatch_ms", round(program.dispatches * spec.dispatch_us / 1000, 3), "ms"),
        exactly(f"{name}.operators_on_cpu", program.host_commands, "", 0),
    ]


def _memory(program: Compiled, promise: Promise) -> list[Figure]:
    name, profile = program.shape.name, program.report.profiles[0]
    limit = None if promise.sram_bytes is None else promise.sram_bytes / 2**20
    moved = program.estimated("ideal").ddr_bytes / 1e6
    return [
        _held(f"{name}.sram_mib", round(program.profile.sram_peak / 2**20, 3), "MiB", limit),
        _printed(f"{name}.sram_bound_mib", round(profile.sram_bound / 2**20, 3), "MiB, most alive at once"),
        _printed(f"{name}.sram_naive_mib", round(profile.naive_sram / 2**20, 3), "MiB, every operator alone"),
        Figure(
            f"{name}.ddr_intermediate_bytes",
            program.intermediate_bytes,
            "B",
            "printed" if limit is None else "0",
            limit is None or program.intermediate_bytes == 0,
        ),
        _held(f"{name}.ddr_mb", round(moved, 3), "MB a frame", promise.ddr_mb),
        _printed(f"{name}.load_mb", round(program.prologue_bytes / 1e6, 3), "MB of constants, once at load"),
    ]


def _time(program: Compiled, promise: Promise) -> list[Figure]:
    name, floor = program.shape.name, program.floor_ms()
    ideal, u85 = program.timed("ideal"), program.timed("u85-like")
    over = round(ideal.total / floor, 4)
    possible = ideal.total >= floor * (1 - ROUNDING)
    return [
        _printed(f"{name}.floor_ms", round(floor, 3), "ms, MACs at 2 TMAC/s and launches"),
        Figure(f"{name}.ideal_ms", round(ideal.total, 3), "ms", "not below the floor", possible),
        _held(f"{name}.ideal_over_floor", over, "x the floor", IDEAL_OVER_FLOOR if promise.ideal else None),
        _held(f"{name}.u85_bare_ms", round(u85.bare, 3), "ms, no launch or dispatch", promise.bare_u85_ms, below),
        _printed(f"{name}.u85_ms", round(u85.total, 3), "ms, launches and dispatches in"),
        _printed(f"{name}.ddr_efficiency", round(100 * ideal.ddr_efficiency, 1), "% of the bus while busy"),
        _printed(f"{name}.dma_hidden", round(100 * ideal.hidden, 1), "% of transfer time (ideal)"),
        _printed(f"{name}.dma_hidden_u85", round(100 * u85.hidden, 1), "% of transfer time (u85-like)"),
    ]


def _rival(name: str, vela: NetResult) -> list[Figure]:
    left = ", ".join(vela.cpu_operators) or "none"
    return [
        _printed(f"{name}.vela_ms", round(vela.milliseconds, 2), "ms, no launch, dispatch or CPU operator"),
        _printed(f"{name}.vela_ddr_mb", round(vela.dram_mb_per_frame, 1), "MB a frame"),
        _printed(f"{name}.vela_on_cpu", len(vela.cpu_operators), f"operators: {left}"),
    ]


def _held(
    name: str,
    value: float,
    unit: str,
    bound: float | None,
    against: Callable[[str, float, str, float], Figure] = at_most,
) -> Figure:
    if bound is None:
        return _printed(name, value, unit)
    found = against(name, value, unit.split(",")[0], bound)
    return Figure(name, value, unit, found.reach, found.ok)


def _printed(name: str, value: float, unit: str) -> Figure:
    return Figure(name, value, unit, "printed", True)
