"""Lower the peak by exact search, and raise the bound where a search proves that less is impossible.

Each independent problem is searched for itself: first at the bound, then halfway between what failed and what is
known. Only problems higher than the bound of the whole matter. The budget is in search steps, shared out by
halves but never below what one pass over the buffers takes, so the result does not depend on the clock unless a
deadline is given.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from compiler.memory.problem import Ints, Problem
from compiler.memory.valley_search import Found, Outcome, Settings, search

_PASS = 2  # steps for each buffer below which a search is over before it can succeed

Searcher = Callable[[Problem, int, Settings, float | None], Found]


@dataclass(frozen=True)
class Budget:
    """Search steps in all, a ``time.monotonic`` deadline or None, and the seed."""

    steps: int
    deadline: float | None = None
    seed: int = 0

    def over(self) -> bool:
        return self.steps <= 0 or (self.deadline is not None and time.monotonic() > self.deadline)


@dataclass(frozen=True)
class Tightened:
    """The best offsets in units (None: nothing better than what was known), the peak that no placement of this
    problem can beat, and the steps taken.
    """

    offsets: Ints | None
    peak: int
    floor: int
    steps: int


def tighten(problem: Problem, peak: int, enough: int, budget: Budget, searcher: Searcher = search) -> Tightened:
    """Search for a lower peak than ``peak`` units; ``enough`` units are as good as fewer."""
    floor = int(problem.load.max())
    offsets: Ints | None = None
    failed, taken = max(floor, min(enough, peak)) - 1, 0
    target = failed + 1
    while failed + 1 < peak and not replace(budget, steps=budget.steps - taken).over():
        left = budget.steps - taken
        share = max(left // 2, min(left, _PASS * len(problem.size)))
        found = searcher(problem, target, Settings(steps=share, seed=budget.seed), budget.deadline)
        taken += found.steps
        if found.outcome is Outcome.FOUND and found.offsets is not None:
            offsets, peak = found.offsets, int((found.offsets + problem.size).max())
        else:
            failed = target
        if found.outcome is Outcome.IMPOSSIBLE:
            floor = max(floor, target + 1)
            if target == enough:
                break
        target = (failed + peak) // 2
    return Tightened(offsets, peak, floor, taken)
