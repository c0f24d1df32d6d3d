"""What follows from a skyline before anything is guessed: bounds, forced moves, gaps that have to stay empty.

Three deductions are repeated until nothing changes.

1. Release bound. A pending buffer cannot lie below the highest floor of its sections. For each section, the
   buffers that cannot lie below some height have to fit between that height and the capacity.
2. A valley is a run of sections of one floor between higher neighbours. What rests on its floor lies inside
   it. When nothing pending can, the valley is given up to the height of its lower neighbour: whatever comes
   next there also covers a neighbour.
3. Where a section has no room for a gap and one buffer alone can rest on its floor, that buffer is placed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.memory.problem import Ints
from compiler.memory.skyline import FULL, Bools, Skyline, Tables


@dataclass(frozen=True)
class Choices:
    """What may rest where: ``ready`` are the buffers that can be put on the floor of their valley now,
    ``options`` counts them by section (0 outside valleys), ``gap_allowed``: the section may also stay empty.
    """

    ready: Ints
    options: Ints
    gap_allowed: Bools


@dataclass(frozen=True)
class DeadEnd:
    """No placement follows; ``section`` is where it was seen."""

    section: int


def deduce(tables: Tables, state: Skyline, capacity: int) -> Choices | DeadEnd | None:
    """Apply all deductions to ``state``; None when every buffer is placed."""
    while state.pending.size:
        height, at_rest = _heights(tables, state)
        dead = _overfull(tables, state.pending, _releases(tables, state, height, at_rest), capacity)
        if dead is not None:
            return dead
        ready = _ready(tables, state, height, at_rest)
        options = _count(tables, ready)
        valleys = _valleys(state.floor)
        given_up = _give_up(state, valleys, options)
        if given_up is None:
            return DeadEnd(int(valleys.starts[0]))
        if given_up:
            continue
        in_valley = valleys.mask & (state.rest > 0)
        gap_allowed = capacity - state.floor[:-1] - state.rest > 0
        forced = _forced(tables, ready, in_valley & ~gap_allowed & (options == 1))
        if forced.size == 0:
            return Choices(ready, np.where(in_valley, options, 0), gap_allowed)
        if _count(tables, forced).max() > 1:
            return DeadEnd(int(tables.bounds[forced[0], 0]))
        for buffer in forced.tolist():
            state.place(buffer, int(state.floor[tables.bounds[buffer, 0]]), tables.problem)
    return None


def _heights(tables: Tables, state: Skyline) -> tuple[Ints, Bools]:
    """For each pending buffer the highest floor of its sections, and whether it may rest there now."""
    code = 2 * state.floor + (state.floor == state.top)
    highest = np.maximum.reduceat(code, tables.bounds[state.pending].ravel())[::2]
    height = highest >> 1
    return height, ((highest & 1) == 1) & (state.barred[state.pending] <= height)


def _releases(tables: Tables, state: Skyline, height: Ints, at_rest: Bools) -> Ints:
    """A lower bound on each pending buffer's offset. One that may not rest now will rest on a pending one."""
    pending = state.pending
    release = np.maximum(height, state.barred[pending])
    late = np.flatnonzero(~at_rest)
    if late.size:
        ends = height + tables.problem.size[pending]
        under = np.where(tables.clash[pending[late][:, None], pending], ends, FULL).min(axis=1)
        release[late] = np.maximum(release[late], under)
    return release


def _overfull(tables: Tables, pending: Ints, release: Ints, capacity: int) -> DeadEnd | None:
    """In each section the buffers released late have to fit below the capacity."""
    late_first = np.argsort(-release)
    piled = tables.weights.take(pending[late_first], axis=1).cumsum(axis=1)
    over = piled.max(axis=0) + release[late_first] > capacity
    if not over.any():
        return None
    return DeadEnd(int(piled[:, over.argmax()].argmax()))


def _ready(tables: Tables, state: Skyline, height: Ints, at_rest: Bools) -> Ints:
    """Pending buffers that fit the floor they rest on, one for each way to order what can be swapped."""
    pending, bounds = state.pending, tables.bounds[state.pending]
    lower, upper = bounds[:, 0], bounds[:, 1]
    below = state.last[lower]
    swapped = (tables.kind[below] == tables.kind[pending]) & (below > pending) & (state.top[lower] == height)
    area = np.concatenate([[0], state.floor[:-1].cumsum()])
    flat = area[upper] - area[lower] == height * (upper - lower)
    ready: Ints = pending[at_rest & flat & ~swapped & ~state.waiting[tables.twin[pending]]]
    return ready


def _count(tables: Tables, buffers: Ints) -> Ints:
    """How many of ``buffers`` cover each section."""
    sections = tables.problem.sections
    begin = np.bincount(tables.bounds[buffers, 0], minlength=sections + 1)
    end = np.bincount(tables.bounds[buffers, 1], minlength=sections + 1)
    return (begin - end).cumsum()[:-1]


@dataclass(frozen=True)
class _Valleys:
    """Runs of one floor with their ends and their lower neighbour's floor; ``mask`` marks their sections."""

    starts: Ints
    ends: Ints
    wall: Ints
    mask: Bools


def _valleys(floor: Ints) -> _Valleys:
    level = floor[:-1]
    starts = np.concatenate([[0], np.flatnonzero(np.diff(level)) + 1])
    ends = np.concatenate([starts[1:], [len(level)]])
    padded = np.concatenate([[FULL], level[starts], [FULL]])
    wall = np.minimum(padded[:-2], padded[2:])
    is_valley = level[starts] < wall
    mask = np.repeat(is_valley, ends - starts)
    return _Valleys(starts[is_valley], ends[is_valley], wall[is_valley], mask)


def _give_up(state: Skyline, valleys: _Valleys, options: Ints) -> bool | None:
    """Raise the valleys on whose floor nothing can rest; None when one of them has no way out."""
    sums = np.concatenate([[0], options.cumsum()])
    empty = np.flatnonzero(sums[valleys.ends] == sums[valleys.starts])
    for index in empty.tolist():
        if valleys.wall[index] >= FULL:
            return None
        state.floor[valleys.starts[index] : valleys.ends[index]] = valleys.wall[index]
    return empty.size > 0


def _forced(tables: Tables, ready: Ints, sections: Bools) -> Ints:
    """Those of ``ready`` that cover one of ``sections``, where nothing else can rest."""
    sums = np.concatenate([[0], sections.cumsum()])
    forced: Ints = ready[sums[tables.bounds[ready, 1]] > sums[tables.bounds[ready, 0]]]
    return forced
