"""The planner of one memory: greedy, then a bounded hill climb, then exact search, each only while there is a gap.

Effort goes first into fitting the capacity, if one is given and the peak lies above it, then into closing the gap.
Fast effort, made for every compile, is some hundred search steps; thorough effort searches on while the peak lies
above the capacity, or while there is a gap and no capacity. Without ``budget_s`` and with one worker the result
depends on the input and the seed alone; a clock or several workers may find another placement on another day, never
an invalid one.
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
    """Work of one plan: pairs of buffers compared by the hill climb, steps of the exact search (at least, and for
    each buffer when the effort is fast; in all when it is thorough).
    """

    climb_pairs: int = 600_000
    fast_steps: int = 600
    fast_steps_a_buffer: int = 4
    thorough_steps: int = 400_000


LIMITS = Limits()


@dataclass(frozen=True)
class Patience:
    """How long one profile's plan may be searched for: an effort, and a ``time.monotonic`` deadline for all thorough
    searches together.
    """

    effort: Effort = Effort.FAST
    deadline: float | None = None

    @property
    def left(self) -> float | None:
        """Seconds left for a thorough search, 0 when there is to be none; None without a deadline."""
        if self.effort is Effort.FAST:
            return 0.0
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())


HURRIED = Patience()


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
    quick = Budget(max(LIMITS.fast_steps, LIMITS.fast_steps_a_buffer * len(buffers)), deadline, seed)
    thorough = Budget(LIMITS.thorough_steps, deadline, seed) if effort is Effort.THOROUGH else quick
    search = searcher(workers if effort is Effort.THOROUGH else 1)
    if capacity is None:
        return _searched(buffers, alignment, best, 0, thorough, search)
    if best.peak > capacity:
        best = _searched(buffers, alignment, best, capacity, thorough, search)
    if best.peak > capacity or best.proof is not Proof.NONE:
        return best
    return _searched(buffers, alignment, best, 0, quick, searcher(1))


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
    known_floor = max(best.bound, (floor - 1) * unit + 1)
    if improved:
        best = placement_of(buffers, offsets, alignment, "exact search")
    if best.proof is not Proof.NONE:
        return best
    proof = Proof.SEARCH if -(-best.peak // unit) <= -(-known_floor // unit) else Proof.NONE
    return replace(best, bound=known_floor, proof=proof)
