"""The planner of one memory: greedy, then a bounded hill climb, then exact search, each only while there is a gap.

Fast effort is made for every compile: at most some hundred search steps. Thorough effort searches on when the gap
matters: no capacity is given, or the peak lies above it. Without ``budget_s`` and with one worker the result
depends on the input and the seed alone; a clock or several workers may find another placement on another day,
never an invalid one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from compiler.memory.buffers import Buffer
from compiler.memory.exact import Budget, Searcher, tighten
from compiler.memory.greedy import peak_of, place, placement_of
from compiler.memory.hill_climb import climb
from compiler.memory.placement import Placement, Proof
from compiler.memory.portfolio import searcher
from compiler.memory.problem import problems


class Effort(Enum):
    """How long to look for a better placement."""

    FAST = "fast"
    THOROUGH = "thorough"


@dataclass(frozen=True)
class Limits:
    """Work of one plan: pairs of buffers compared by the hill climb, steps of the exact search."""

    climb_pairs: int = 600_000
    fast_steps: int = 600
    thorough_steps: int = 400_000


LIMITS = Limits()


def plan_placement(
    buffers: Sequence[Buffer],
    alignment: int,
    capacity: int | None = None,
    *,
    effort: Effort = Effort.FAST,
    budget_s: float | None = None,
    workers: int = 1,
    seed: int = 0,
) -> Placement:
    """The best placement that the effort finds, with its bound and proof.

    ``budget_s`` is a limit of wall time for the search; ``workers`` processes share a thorough search. Raises
    ValueError when two buffers have one name.
    """
    if len({buffer.name for buffer in buffers}) != len(buffers):
        raise ValueError("two buffers have one name: a placement is by name, rename one of them")
    deadline = None if budget_s is None else time.monotonic() + budget_s
    best = place(buffers, alignment)
    if best.proof is not Proof.NONE:
        return best
    best = _climbed(buffers, alignment, best, seed)
    if best.proof is not Proof.NONE:
        return best
    best = _searched(buffers, alignment, best, 0, Budget(LIMITS.fast_steps, deadline, seed), searcher(1))
    matters = capacity is None or best.peak > capacity
    if effort is Effort.FAST or best.proof is not Proof.NONE or not matters:
        return best
    budget = Budget(LIMITS.thorough_steps, deadline, seed)
    return _searched(buffers, alignment, best, capacity or 0, budget, searcher(workers))


def _climbed(buffers: Sequence[Buffer], alignment: int, best: Placement, seed: int) -> Placement:
    offsets = climb(buffers, alignment, best.bound, LIMITS.climb_pairs, seed)
    if peak_of(buffers, offsets) >= best.peak:
        return best
    return placement_of(buffers, offsets, alignment, "hill climb")


def _searched(
    buffers: Sequence[Buffer], alignment: int, best: Placement, enough: int, budget: Budget, search: Searcher
) -> Placement:
    """Each independent problem tightened to the height of the highest bound, or to what is enough."""
    parts = problems(buffers, alignment)
    unit = parts[0].unit
    goal = max(enough // unit, *(int(part.load.max()) for part in parts))
    offsets = [best.offsets[buffer.name] for buffer in buffers]
    floor, improved = 0, False
    for part in parts:
        known = max(-(-(offsets[member] + buffers[member].size) // unit) for member in part.members)
        result = tighten(part, known, goal, budget, search)
        budget = replace(budget, steps=budget.steps - result.steps)
        floor = max(floor, result.floor)
        if result.offsets is not None:
            improved = True
            for member, offset in zip(part.members, result.offsets.tolist(), strict=True):
                offsets[member] = offset * unit
    if improved:
        best = placement_of(buffers, offsets, alignment, "exact search")
    return _with_floor(best, floor, unit)


def _with_floor(best: Placement, floor: int, unit: int) -> Placement:
    """The placement with the bound that the search proved; ``floor`` in units."""
    if best.proof is not Proof.NONE:
        return best
    bound = max(best.bound, (floor - 1) * unit + 1)
    proof = Proof.SEARCH if -(-best.peak // unit) <= floor else Proof.NONE
    return replace(best, bound=bound, proof=proof)
