"""`edgeloop bench planner`: the memory planner on the eleven hard minimalloc problems and on the reference nets.

A problem counts when the placement fits 1,048,576 bytes, an independent check finds no fault, and the planner needed at
most 60 s of wall time with two search processes. CPU seconds are printed beside, for machines that are not quiet. The
ratios are peak over lower bound: of the best greedy order, of the hill climb alone, of the whole planner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.compiling.measure import compiled
from benchmarks.planning import Instance, Solved, minimalloc, solve
from benchmarks.reference_nets import NETS, NetShape
from edgeloop.figures import Figure, Value, at_least

BUDGET_S = 60.0
WORKERS = 2
ENOUGH = 8


def bench(tell: Callable[[float, str], None]) -> Sequence[Figure]:
    """All figures of the planner."""
    instances = minimalloc()
    steps = len(instances) + len(NETS)
    solved: list[Solved] = []
    for index, instance in enumerate(instances):
        tell(index / steps, f"minimalloc {instance.name}")
        solved.append(solve(instance, BUDGET_S, WORKERS))
    found = minimalloc_figures(instances, solved)
    for index, shape in enumerate(NETS):
        tell((len(instances) + index) / steps, shape.name)
        found += net_figures(shape)
    return found


def minimalloc_figures(instances: Sequence[Instance], solved: Sequence[Solved]) -> list[Figure]:
    """How many were solved in time, and each one."""
    in_time = [one for one in solved if one.fits and one.wall <= BUDGET_S]
    found = [
        at_least("planner.minimalloc.solved", len(in_time), f"of {len(instances)}", ENOUGH),
        _printed("planner.minimalloc.slowest_seconds", max((one.wall for one in in_time), default=0.0), "s"),
        _printed("planner.minimalloc.cpu_seconds", sum(one.cpu for one in solved), "s of CPU, all"),
    ]
    for one in solved:
        found += _one(one)
    return found


def net_figures(shape: NetShape) -> list[Figure]:
    """The plan of one of the project's own programs."""
    (profile,) = compiled(shape).report.profiles
    return [
        _printed(f"planner.{shape.name}.peak", profile.sram_peak, "B"),
        _printed(f"planner.{shape.name}.bound", profile.sram_bound, "B"),
        _printed(f"planner.{shape.name}.proof", profile.planner, ""),
    ]


def _one(one: Solved) -> list[Figure]:
    name = f"planner.minimalloc.{one.name}"
    outcome = f"{one.placement.method}, {one.placement.status}" if one.fits else f"not solved: {one.faults[0]}"
    return [
        _printed(f"{name}.outcome", outcome, ""),
        _printed(f"{name}.seconds", round(one.wall, 2), "s"),
        _printed(f"{name}.cpu_seconds", round(one.cpu, 2), "s of CPU"),
        _printed(f"{name}.greedy", round(one.greedy, 3), "x bound"),
        _printed(f"{name}.hill_climb", round(one.climbed, 3), "x bound"),
        _printed(f"{name}.planner", round(one.ratio, 3), "x bound"),
    ]


def _printed(name: str, value: Value, unit: str) -> Figure:
    return Figure(name, value, unit, "printed", True)
