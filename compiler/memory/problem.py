"""A placement problem in whole units: live ranges over sections, sizes in multiples of one unit.

Time is cut down to the sections that matter: a section is a step at which the set of alive buffers is maximal.
Two buffers are alive together exactly when they share a section, so nothing is lost. Problems that share no
section are independent and are split apart. The unit is the greatest common divisor of all sizes rounded up to
the alignment, so offsets that are sums of sizes stay aligned.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np
import numpy.typing as npt

from compiler.memory.buffers import Buffer

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Problem:
    """Buffers alive together in one connected stretch of time.

    ``lower`` and ``upper`` are sections (upper excluded), ``size`` counts units of ``unit`` bytes. Buffers are
    sorted by live range, the largest first within one; ``members`` are their indices in the caller's list.
    """

    members: tuple[int, ...]
    lower: Ints
    upper: Ints
    size: Ints
    sections: int
    unit: int

    @property
    def load(self) -> Ints:
        """Units alive in each section."""
        edges = np.zeros(self.sections + 1, np.int64)
        np.add.at(edges, self.lower, self.size)
        np.subtract.at(edges, self.upper, self.size)
        return edges.cumsum()[:-1]


def problems(buffers: Sequence[Buffer], alignment: int) -> list[Problem]:
    """The independent problems in ``buffers``; empty buffers belong to none."""
    members = [index for index, buffer in enumerate(buffers) if buffer.size > 0]
    if not members:
        return []
    rounded = {index: -(-buffers[index].size // alignment) * alignment for index in members}
    unit = gcd(*rounded.values())
    ends = _sections([buffers[index] for index in members])
    ranges = {
        index: (bisect_left(ends, buffers[index].first), bisect_right(ends, buffers[index].last)) for index in members
    }
    members.sort(key=lambda index: (*ranges[index], -rounded[index], index))
    return [_problem(group, ranges, rounded, unit) for group in _groups(members, ranges)]


def lower_bound(buffers: Sequence[Buffer], alignment: int) -> int:
    """The most bytes alive at any step when all but one buffer are rounded up: no placement can need less."""
    best = 0
    for step in {buffer.first for buffer in buffers}:
        sizes = [buffer.size for buffer in buffers if buffer.first <= step <= buffer.last]
        padded = [-(-size // alignment) * alignment for size in sizes]
        waste = max(whole - size for whole, size in zip(padded, sizes, strict=True))
        best = max(best, sum(padded) - waste)
    return best


def _sections(buffers: Sequence[Buffer]) -> list[int]:
    """The step that ends each section: a buffer ends there, and one began since the section before."""
    starts = {buffer.first for buffer in buffers}
    ends = {buffer.last for buffer in buffers}
    kept: list[int] = []
    began = False
    for step in sorted(starts | ends):
        began = began or step in starts
        if began and step in ends:
            kept.append(step)
            began = False
    return kept


def _groups(members: Sequence[int], ranges: Mapping[int, tuple[int, int]]) -> list[list[int]]:
    """Members, sorted by live range, cut where no buffer crosses from one section to the next."""
    groups: list[list[int]] = []
    reach = -1
    for index in members:
        lower, upper = ranges[index]
        if lower >= reach:
            groups.append([])
        groups[-1].append(index)
        reach = max(reach, upper)
    return groups


def _problem(
    group: Sequence[int], ranges: Mapping[int, tuple[int, int]], rounded: Mapping[int, int], unit: int
) -> Problem:
    start = ranges[group[0]][0]
    return Problem(
        members=tuple(group),
        lower=np.array([ranges[index][0] - start for index in group], np.int64),
        upper=np.array([ranges[index][1] - start for index in group], np.int64),
        size=np.array([rounded[index] // unit for index in group], np.int64),
        sections=max(ranges[index][1] for index in group) - start,
        unit=unit,
    )
