"""Reading: rows of a region as they are found, and the value that they are together."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.verifier.queues import DMA
from compiler.verifier.regions import Region
from compiler.verifier.rows import Part, Rows
from compiler.verifier.values import MIXED, UNKNOWN, Values


@dataclass(frozen=True)
class Reading:
    """What a region held: a value, and which of its stored rows comes first."""

    value: int
    row: int


NOTHING = Reading(UNKNOWN, 0)


class Run:
    """Rows of one read, as they come: one value, one row after another. Whole values may lie below each
    other.
    """

    __slots__ = ("_index", "_queue", "_rows", "_stack", "_value", "first", "late", "mixed")

    def __init__(self, index: int, queue: int) -> None:
        self._index = index
        self._queue = queue
        self._value = self._rows = self.first = self.late = -1
        self._stack: list[tuple[int, int]] = []
        self.mixed = False

    def access(self, part: Part) -> None:
        """The command reads a part."""
        if part.queue != self._queue and part.writer > self.late:
            self.late = part.writer
        if self._queue == DMA:
            part.dma_read = self._index
        else:
            part.compute_read = self._index

    def add(self, value: int, row: int) -> None:
        """The next row holds row ``row`` of ``value``."""
        if self._rows < 0:
            self._value, self.first, self._rows = value, row, row
        elif value != self._value:
            self._stack.append((self._rows, self._value))
            self.mixed = self.mixed or (row != 0 and UNKNOWN not in (value, self._value))
            self._value, self._rows = value, row
        elif row != self._rows and value != UNKNOWN:
            self.mixed = True
        self.mixed = self.mixed or value == MIXED
        self._rows += 1

    def ends(self) -> list[tuple[int, int]]:
        """``(rows, value)`` of each value that another one lies below: it has to end there."""
        return [(rows, value) for rows, value in self._stack if value != UNKNOWN]

    def note(self, values: Values) -> None:
        """Tell each value which rows of it were read."""
        first = self.first
        for end, value in (*self._stack, (self._rows, self._value)):
            if value > UNKNOWN:
                values.note_read(value, first, end)
            first = 0

    def value(self, values: Values) -> int:
        """The value that the rows are, MIXED when they are none."""
        if not self._stack:
            return self._value
        parts = (*self._stack, (self._rows, self._value))
        if any(value == UNKNOWN for _, value in parts):
            return UNKNOWN
        points = {values.zero_point[value] for _, value in parts}
        return MIXED if len(points) > 1 else values.below(parts)


def find_row(rows: Rows, values: Values, region: Region, start: int) -> tuple[int, int, list[Part]]:
    """Value, row and parts of one row of a region that is not simply a slot; no parts when bytes are
    missing.
    """
    at, left = start, region.cols
    column, shares = 0, []
    found: list[Part] = []
    while left > 0:
        slot = rows.holding(at)
        if slot is None or slot.piece is not None or slot.pitch != region.pixel_stride:
            return UNKNOWN, 0, []
        skipped, low = divmod(at - slot.start, slot.pitch)
        cols = min(left, slot.cols - skipped)
        parts = slot.covering(low, low + region.channels)
        if cols < 1 or not parts:
            return UNKNOWN, 0, []
        value = _pixels(parts, low, region.channels, values)
        if cols != slot.cols:
            value = values.columns(value, skipped, skipped + cols, slot.cols)
        shares.append((column, column + cols, value))
        found += parts
        column, left, at = column + cols, left - cols, at + cols * slot.pitch
    together = shares[0][2] if len(shares) == 1 else values.beside("columns", tuple(shares))
    alike = all(part.row == found[0].row for part in found)
    return together if alike or together == UNKNOWN else MIXED, found[0].row, found


def _pixels(parts: list[Part], low: int, channels: int, values: Values) -> int:
    """The value of channels ``low..low + channels`` of the slot whose parts these are."""
    base = parts[0].low
    whole = parts[0].value
    if len(parts) > 1:
        whole = values.beside("channels", tuple((part.low - base, part.high - base, part.value) for part in parts))
    if low == base and low + channels == parts[-1].high:
        return whole
    return values.channels(whole, low - base, low - base + channels)
