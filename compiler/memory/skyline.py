"""The state of the exact search: how high every section is filled, and what is still to be placed.

Buffers are stacked from offset 0 upwards. Any placement can be pushed down until each buffer rests on another
or on the ground, so the search looks at such placements only: a buffer put down later never lies below one of
its own sections that was put down before. The filled part of each section is therefore one number, its floor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.memory.problem import Ints, Problem

Bools = npt.NDArray[np.bool_]
FULL = 1 << 40  # floor of a section that has nothing left to place


@dataclass(frozen=True)
class Tables:
    """What never changes while a problem is searched; rows are buffers.

    ``bounds`` is lower and upper side by side, ``clash`` tells which two buffers are alive together, ``kind``
    numbers the live ranges, and ``twin`` is the buffer before this one with the same range and size, or -1.
    ``weights`` lies the other way: by section, what each buffer weighs there.
    """

    problem: Problem
    bounds: Ints
    width: Ints
    weights: Ints
    clash: Bools
    kind: Ints
    twin: Ints

    @classmethod
    def of(cls, problem: Problem) -> Tables:
        lower, upper, size = problem.lower, problem.upper, problem.size
        sections = np.arange(problem.sections)
        alive = (lower <= sections[:, None]) & (sections[:, None] < upper)
        clash = (lower[:, None] < upper) & (lower < upper[:, None])
        np.fill_diagonal(clash, False)
        same = (np.diff(lower) == 0) & (np.diff(upper) == 0)
        twins = same & (np.diff(size) == 0)
        before = np.arange(len(size) - 1)
        return cls(
            problem=problem,
            bounds=np.stack([lower, upper], axis=1),
            width=upper - lower,
            weights=np.where(alive, size, 0),
            clash=clash,
            kind=np.concatenate([[0], np.cumsum(~same), [-1]]),  # the last one stands for "no buffer"
            twin=np.concatenate([[-1], np.where(twins, before, -1)]),
        )


@dataclass
class Skyline:
    """One node of the search.

    By section: ``floor`` (units below it are filled or given up; one more entry, FULL, ends the row), ``top``
    (where the highest buffer ends), ``last`` (that buffer, or -1), ``rest`` (units still to place). By buffer:
    ``barred`` (it may not lie below this), ``waiting`` (still to place; one more entry, False, for "no buffer").
    ``pending`` are the buffers to place, in order.
    """

    floor: Ints
    top: Ints
    last: Ints
    rest: Ints
    barred: Ints
    waiting: Bools
    pending: Ints
    offsets: Ints

    @classmethod
    def empty(cls, problem: Problem) -> Skyline:
        sections, count = problem.sections, len(problem.size)
        floor = np.zeros(sections + 1, np.int64)
        floor[-1] = FULL
        return cls(
            floor=floor,
            top=np.zeros(sections + 1, np.int64),
            last=np.full(sections + 1, -1),
            rest=problem.load,
            barred=np.zeros(count, np.int64),
            waiting=np.concatenate([np.ones(count, np.bool_), [False]]),
            pending=np.arange(count),
            offsets=np.zeros(count, np.int64),
        )

    def copy(self) -> Skyline:
        return Skyline(
            self.floor.copy(),
            self.top.copy(),
            self.last.copy(),
            self.rest.copy(),
            self.barred.copy(),
            self.waiting.copy(),
            self.pending,
            self.offsets.copy(),
        )

    def place(self, buffer: int, offset: int, problem: Problem) -> None:
        """Put a buffer down; sections with nothing left become walls."""
        span = slice(int(problem.lower[buffer]), int(problem.upper[buffer]))
        size = problem.size[buffer]
        self.offsets[buffer] = offset
        self.rest[span] -= size
        self.top[span] = offset + size
        self.last[span] = buffer
        self.floor[span] = np.where(self.rest[span] > 0, offset + size, FULL)
        self.waiting[buffer] = False
        self.pending = self.pending[self.pending != buffer]
