"""Constants: which bytes of the CONSTANTS and QUANT sections stand in memory, and what they are used as.

The stream says twice what a constant is: a DMA brings bytes of a section, a command reads them as weights,
bias, multipliers, zero points or a table. From the two follow rules that a moved offset breaks. Within a
profile every use of a range names the same range, two ranges never overlap, and weights, bias and multipliers
belong together; over all profiles (widths share constants) what is brought is read, up to the padding that
alignment needs.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from compiler.verifier.findings import Report
from contracts.npu import Space

Range = tuple[int, int, int]  # space, first byte, one past the last
Ranges = tuple[Range, ...]


class Piece:
    """Constants that one DMA brought: ``size`` bytes from ``offset`` of the section ``space``."""

    __slots__ = ("offset", "size", "space")

    def __init__(self, space: int, offset: int, size: int) -> None:
        self.space = space
        self.offset = offset
        self.size = size


@dataclass
class Coverage:
    """What is brought and what is read of the sections, over all profiles; and which constants belong
    together.
    """

    brought: set[Range] = field(default_factory=set)
    read: set[Range] = field(default_factory=set)
    owners: dict[tuple[str, Ranges, int], tuple[Ranges, ...]] = field(default_factory=dict)
    ranges: dict[str, frozenset[Range]] = field(default_factory=dict)

    def gaps(self, alignment: int, sections: Mapping[int, npt.NDArray[np.uint8]]) -> list[Range]:
        """Ranges that are brought and never read, and are no padding: longer than an alignment, or not zero."""
        return [
            gap for gap in self._unread() if gap[2] - gap[1] >= alignment or sections[gap[0]][gap[1] : gap[2]].any()
        ]

    def _unread(self) -> list[Range]:
        found: list[Range] = []
        read = sorted(self.read)
        done: dict[int, int] = {}
        for space, low, high in sorted(self.brought):
            at = max(low, done.get(space, 0))
            for other, first, end in read:
                if other == space and end > at and first < high:
                    if first > at:
                        found.append((space, at, first))
                    at = max(at, end)
            if high > at:
                found.append((space, at, high))
            done[space] = max(high, done.get(space, 0))
        return found


@dataclass
class Roles:
    """What each range of the sections is read as in one profile; ranges are disjoint."""

    profile: str
    alignment: int
    coverage: Coverage
    _roles: dict[Range, tuple[str, int]] = field(default_factory=dict)
    _order: list[Range] = field(default_factory=list)
    _weights_of: dict[Ranges, Ranges] = field(default_factory=dict)

    def use(self, report: Report, index: int, ranges: Ranges, role: str) -> None:
        """A command reads ranges as ``role``."""
        for piece in ranges:
            if piece not in self._roles:
                self._first_use(report, index, piece, role)
            known, command = self._roles[piece]
            if known != role:
                report.add(index, "constants", f"reads as {role} what command {command} reads as {known}")

    def belong(self, report: Report, index: int, row: int, found: Sequence[Ranges]) -> None:
        """Weights have one bias, one row of multipliers and of zero points, in all profiles of one width alike;
        and those multipliers have no other weights.
        """
        if () in found:
            return
        weights, quant = found[0], found[2]
        key = self.profile.partition("@")[2], weights, row
        if self.coverage.owners.setdefault(key, tuple(found)) != tuple(found):
            report.add(index, "constants", f"weights at {_place(weights)} go with other constants elsewhere")
        if self._weights_of.setdefault(quant, weights) != weights:
            report.add(index, "constants", f"multipliers at {_place(quant)} go with other weights elsewhere")

    def finish(self, report: Report) -> None:
        """At END: profiles of one width read the same constants."""
        width = self.profile.partition("@")[2]
        other = self.coverage.ranges.setdefault(width, frozenset(self._roles))
        for space, low, high in sorted(other ^ frozenset(self._roles)):
            where = "here" if (space, low, high) in self._roles else "in another profile"
            text = f"bytes {low}..{high} of section {Space(space).name} are constants only {where}"
            report.add(-1, "constants", text)

    def _first_use(self, report: Report, index: int, piece: Range, role: str) -> None:
        if piece[0] != (Space.QUANT if role == "quant_offset" else Space.CONST):
            report.add(index, "constants", f"{role} lies in section {Space(piece[0]).name}")
        if piece[1] % self.alignment:
            report.add(index, "constants", f"{role} at {piece[1]} of its section, no multiple of {self.alignment}")
        self.coverage.read.add(piece)
        self._roles[piece] = role, index
        insort(self._order, piece)
        place = bisect_left(self._order, piece)
        for other in self._order[max(place - 1, 0) : place + 2]:
            if other != piece and other[0] == piece[0] and other[1] < piece[2] and piece[1] < other[2]:
                known, command = self._roles[other]
                text = f"{role} at {piece[1]}..{piece[2]} of its section overlaps {other[1]}..{other[2]}"
                report.add(index, "constants", f"{text}, which command {command} reads as {known}")


def _place(ranges: Ranges) -> str:
    return f"{ranges[0][1]}..{ranges[-1][2]} of section {Space(ranges[0][0]).name}"
