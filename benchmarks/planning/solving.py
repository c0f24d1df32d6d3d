"""One problem solved from nothing, with the clock running and the answer checked by what shares no code with it."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass

from benchmarks.planning.instances import Instance
from compiler.memory.check import faults
from compiler.memory.greedy import peak_of, place
from compiler.memory.hill_climb import climb
from compiler.memory.placement import Placement
from compiler.memory.planner import LIMITS, Effort, plan_placement


@dataclass(frozen=True)
class Solved:
    """What the whole planner found, what its cheaper stages find by themselves (peak over bound), and the cost."""

    name: str
    placement: Placement
    faults: tuple[str, ...]
    greedy: float
    climbed: float
    wall: float
    cpu: float

    @property
    def fits(self) -> bool:
        """Within capacity and valid, by the independent check."""
        return not self.faults

    @property
    def ratio(self) -> float:
        """Peak over bound."""
        return self.placement.peak / self.placement.bound


def solve(instance: Instance, budget_s: float, workers: int) -> Solved:
    """The whole planner under a wall clock; the checker has the capacity, so an unsolved problem has faults."""
    buffers = instance.buffers
    cpu, wall = _cpu(), time.perf_counter()
    placement = plan_placement(
        buffers, 1, instance.capacity, effort=Effort.THOROUGH, budget_s=budget_s, workers=workers
    )
    wall, cpu = time.perf_counter() - wall, _cpu() - cpu
    greedy = place(buffers, 1)
    climbed = climb(buffers, 1, greedy.bound, LIMITS.climb_pairs)
    return Solved(
        name=instance.name,
        placement=placement,
        faults=tuple(faults(buffers, placement.offsets, 1, instance.capacity)),
        greedy=greedy.peak / greedy.bound,
        climbed=peak_of(buffers, climbed) / greedy.bound,
        wall=wall,
        cpu=cpu,
    )


def _cpu() -> float:
    """CPU seconds of this process and of the search processes that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime
