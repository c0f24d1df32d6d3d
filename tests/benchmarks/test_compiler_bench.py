"""The bench of the compiler on a net that compiles at once: every figure is there, and broken promises show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks import compiler
from benchmarks.compiling import ablation, calibration, figures
from benchmarks.compiling.ablation import Row, judged
from benchmarks.compiling.measure import Compiled, CompileTime, compiled
from benchmarks.peers.vela.results import NetResult, OperatorResult
from benchmarks.reference_nets import NETS, NetShape
from compiler.errors import CompileError
from compiler.options import CompileOptions
from edgeloop.figures import Figure

SMALL = NetShape("small", 16, 2, 2, 48, 64)
NET_IDS = {
    "operators",
    "kernels",
    "launch_ms",
    "dispatches",
    "dispatch_ms",
    "operators_on_cpu",
    "sram_mib",
    "sram_bound_mib",
    "sram_naive_mib",
    "ddr_intermediate_bytes",
    "ddr_mb",
    "load_mb",
    "floor_ms",
    "ideal_ms",
    "ideal_over_floor",
    "u85_bare_ms",
    "u85_ms",
    "ddr_efficiency",
    "dma_hidden",
    "dma_hidden_u85",
    "compile_wall_s",
    "compile_cpu_s",
}
RIVAL_IDS = {"vela_ms", "vela_ddr_mb", "vela_on_cpu"}
STEP_IDS = {"launches", "dispatches", "sram_mib", "ddr_mb", "ddr_efficiency", "dma_hidden", "ideal_ms", "u85_ms"}
VELA = NetResult("small", 1.0, 10, 10, 20, 100.0, 2.0, ("SPACE_TO_DEPTH",), (OperatorResult("head", 1, 1, 1),))


def _by_id(found: list[Figure]) -> dict[str, Figure]:
    return {figure.id.removeprefix("small."): figure for figure in found}


def test_a_net_has_all_its_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "REPEATS", 1)
    found = _by_id(compiler.net_figures(SMALL, VELA))
    steps = {f"ablation.{step}.{name}" for step, _ in ablation.STEPS for name in STEP_IDS}
    verdicts = {f"ablation.{step}.helps" for step, _ in ablation.STEPS[1:]}
    assert set(found) == NET_IDS | RIVAL_IDS | steps | verdicts


def test_times_lie_above_the_floor_and_launches_are_in_them() -> None:
    program = compiled(SMALL)
    for model in ("ideal", "u85-like"):
        timed = program.timed(model)
        assert timed.total >= program.floor_ms() * (1 - figures.ROUNDING)
        assert timed.bare < timed.total
        assert 0 <= timed.hidden <= 1
        assert 0 < timed.ddr_efficiency <= 1


def test_the_articles_net_is_held_to_what_the_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    program = compiled(SMALL)
    promise = figures.Promise(kernels=1, sram_bytes=1, ddr_mb=0.001, ideal=True, bare_u85_ms=0.001)
    monkeypatch.setitem(figures.PROMISES, "small", promise)
    found = _by_id(figures.figures(program, CompileTime(1.0, 3.5), None))
    broken = {name for name, figure in found.items() if not figure.ok}
    assert {"kernels", "sram_mib", "ddr_mb", "u85_bare_ms", "compile_wall_s"} <= broken
    monkeypatch.delitem(figures.PROMISES, "small")
    assert all(figure.ok for figure in figures.figures(program, CompileTime(1.0, 2.5), None))


def _row(**changes: object) -> Row:
    row = Row("step", 10, 0, 4.0, 100.0, 0.5, 0.5, 40.0, 50.0, ())
    return replace(row, **changes)  # type: ignore[arg-type]  # names checked by replace


def test_a_step_without_gain_needs_a_reason() -> None:
    assert judged(_row(), _row(launches=3)) == ("launches 10 -> 3", True)
    assert judged(_row(), _row(launches=3, ddr_mb=101.0)) == ("launches 10 -> 3; worse: DDR MB 100 -> 101", True)
    assert judged(_row(), _row(reasons=("SRAM is short",))) == ("no: SRAM is short", True)
    assert judged(_row(), _row()) == ("no, and no reason is given", False)


def test_a_step_that_does_not_compile_is_a_figure_that_is_not_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(shape: NetShape, options: CompileOptions) -> Compiled:
        raise CompileError("conv", "no", "change it")

    monkeypatch.setattr(ablation, "compiled", refuse)
    found = ablation.figures(SMALL, ablation.rows(SMALL))
    assert [figure.id for figure in found] == [f"small.ablation.{step}.error" for step, _ in ablation.STEPS]
    assert not any(figure.ok for figure in found)


def test_the_array_model_is_within_three_percent_of_vela_on_every_convolution() -> None:
    found = {figure.id: figure for figure in calibration.figures()}
    assert set(found) == {*(f"u85.calibration.{net.name}" for net in NETS), "u85.calibration.worst"}
    assert [figure.id for figure in found.values() if not figure.ok] == []


def test_a_wrong_array_model_is_not_within_three_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    cycles = calibration.charged_cycles
    monkeypatch.setattr(calibration, "charged_cycles", lambda shape, conv: 1.05 * cycles(shape, conv))
    assert not calibration.figures()[-1].ok
