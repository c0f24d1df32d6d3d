"""`edgeloop bench compiler`: the five reference nets compiled, against the promises, the physical floor and Vela.

Deterministic but for the compile times, which are medians of three. Nothing is run here; `bench npu` does that.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from benchmarks.compiling import ablation, calibration, figures
from benchmarks.compiling.measure import Compiled, CompileTime, compiled
from benchmarks.peers.vela.results import NetResult, read_results
from benchmarks.reference_nets import NETS, NetShape, quantized_net
from edgeloop.figures import Figure

REPEATS = 3


def bench(tell: Callable[[float, str], None]) -> Sequence[Figure]:
    """All figures of the compiler."""
    vela = read_results()
    found: list[Figure] = []
    for index, shape in enumerate(NETS):
        share = index / len(NETS)

        def say(text: str, at: float = share) -> None:
            tell(at, text)

        found += net_figures(shape, vela.net(shape.name), say)
    return [*found, *calibration.figures()]


def net_figures(shape: NetShape, vela: NetResult | None, say: Callable[[str], None] = lambda _: None) -> list[Figure]:
    """One net: what it became, and the ablation."""
    say(shape.name)
    program, times = measured(shape)
    return [*figures.figures(program, times, vela), *ablation.figures(shape, ablation.rows(shape, say))]


def measured(shape: NetShape) -> tuple[Compiled, CompileTime]:
    """The program and the median times of its compilations; drawing the net is not counted."""
    quantized_net(shape)
    runs = [compiled(shape) for _ in range(REPEATS)]
    cpu, wall = ([getattr(run.time, name) for run in runs] for name in ("cpu", "wall"))
    return runs[0], CompileTime(statistics.median(cpu), statistics.median(wall))
