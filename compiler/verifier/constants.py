"""Constants: which bytes of the CONSTANTS and QUANT sections stand in memory, and what they are used as.

The stream says twice what a constant is: a DMA brings bytes of a section, a command reads them as weights,
bias, multipliers, zero points or a table. From the two follow rules that a moved offset breaks: every use of a
range names the same range, two ranges never overlap, and what is brought is read, up to the padding that
alignment needs.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

from compiler.verifier.findings import Report
from contracts.npu import Space

Range = tuple[int, int, int]  # space, first byte, one past the last


class Piece:
    """Constants that one DMA brought: bytes ``offset..`` of the section ``space``, and what was read of
    them.
    """

    __slots__ = ("offset", "size", "space", "used")

    def __init__(self, space: int, offset: int, size: int) -> None:
        self.space = space
        self.offset = offset
        self.size = size
        self.used: set[tuple[int, int]] = set()

    def gaps(self, alignment: int) -> list[tuple[int, int]]:
        """Ranges of the section, an alignment long or longer, that nobody read."""
        found, at = [], 0
        for low, high in [*sorted(self.used), (self.size, self.size)]:
            if low - at >= alignment:
                found.append((self.offset + at, self.offset + low))
            at = max(at, high)
        return found


@dataclass
class Roles:
    """What each range of the sections is read as, over all profiles; ranges are disjoint."""

    _roles: dict[Range, tuple[str, str]] = field(default_factory=dict)
    _order: list[Range] = field(default_factory=list)

    def use(self, report: Report, index: int, ranges: tuple[Range, ...], role: str) -> None:
        """A command reads ranges as ``role``."""
        for piece in ranges:
            if piece not in self._roles:
                self._first_use(report, index, piece, role)
            known, where = self._roles[piece]
            if known != role:
                report.add(index, "constants", f"reads as {role} what {where} reads as {known}")

    def _first_use(self, report: Report, index: int, piece: Range, role: str) -> None:
        if piece[0] != (Space.QUANT if role == "quant_offset" else Space.CONST):
            report.add(index, "constants", f"{role} lies in section {Space(piece[0]).name}")
        self._roles[piece] = role, f"command {index} of {report.profile}"
        insort(self._order, piece)
        place = bisect_left(self._order, piece)
        for other in self._order[max(place - 1, 0) : place + 2]:
            if other != piece and other[0] == piece[0] and other[1] < piece[2] and piece[1] < other[2]:
                known, where = self._roles[other]
                text = f"{role} at {piece[1]}..{piece[2]} of its section overlaps {other[1]}..{other[2]}"
                report.add(index, "constants", f"{text}, which {where} reads as {known}")
