"""Where rows lie: an index of the live rows of one memory by their bytes.

A slot is the place of one row: first byte, pixels, pitch. It holds one part, or several that are different
channels of the same pixels (a concatenation writes them one by one). Invariant: the spans of live slots are
disjoint, so a sorted list of first bytes answers every question.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

from compiler.verifier.constants import Piece


class Part:
    """What one command wrote into channels ``low..high`` of a slot, and who read it last on each queue."""

    __slots__ = ("compute_read", "dma_read", "high", "low", "queue", "row", "value", "writer")

    def __init__(self, low: int, high: int, value: int, row: int, writer: int, queue: int) -> None:
        self.low = low
        self.high = high
        self.value = value
        self.row = row
        self.writer = writer
        self.queue = queue
        self.dma_read = -1
        self.compute_read = -1


class Slot:
    """The place of one row; ``piece`` when it holds constants instead of pixels, ``uses`` what commands read of it."""

    __slots__ = ("cols", "end", "parts", "piece", "pitch", "start", "uses")

    def __init__(self, start: int, cols: int, pitch: int, part: Part, piece: Piece | None = None) -> None:
        self.start = start
        self.cols = cols
        self.pitch = pitch
        self.parts = [part]
        self.piece = piece
        self.end = start + (cols - 1) * pitch + part.high
        self.uses: list[tuple[int, int, int]] = []  # of constants: first byte, end, command

    def last_use(self, low: int, high: int) -> int:
        """The last command that reads constants within ``low..high``; -1 for none."""
        return max((command for first, end, command in self.uses if first < high and low < end), default=-1)

    def is_row(self, cols: int, pitch: int, channels: int) -> bool:
        """Whether the slot is exactly one row of this form, written by one command."""
        if self.cols != cols or self.pitch != pitch or self.piece is not None or len(self.parts) != 1:
            return False
        part = self.parts[0]
        return part.low == 0 and part.high == channels

    def covering(self, low: int, high: int) -> list[Part]:
        """The parts that together are channels ``low..high``; [] when some are missing."""
        found, at = [], low
        for part in sorted(self.parts, key=lambda part: part.low):
            if part.low <= at < part.high and at < high:
                found.append(part)
                at = part.high
        return found if at >= high else []


class Rows:
    """All live slots of one memory."""

    def __init__(self) -> None:
        self.at: dict[int, Slot] = {}
        self._starts: list[int] = []

    def meeting(self, start: int, end: int) -> list[Slot]:
        """Slots whose span shares a byte with ``start..end``, in order."""
        place = bisect_right(self._starts, start)
        first = place - 1 if place and self.at[self._starts[place - 1]].end > start else place
        last = bisect_left(self._starts, end, lo=first)
        return [self.at[at] for at in self._starts[first:last]]

    def holding(self, byte: int) -> Slot | None:
        """The slot whose span holds a byte."""
        place = bisect_right(self._starts, byte)
        if not place:
            return None
        slot = self.at[self._starts[place - 1]]
        return slot if slot.end > byte else None

    def put(self, slot: Slot) -> None:
        """Add a slot that meets no other."""
        self.at[slot.start] = slot
        insort(self._starts, slot.start)

    def drop(self, slot: Slot) -> None:
        """Take a slot away."""
        del self.at[slot.start]
        del self._starts[bisect_left(self._starts, slot.start)]

    def join(self, slot: Slot, shift: int, part: Part) -> bool:
        """Whether ``part``, ``shift`` bytes behind the slot's start, became further channels of its
        pixels.
        """
        low, high = min(0, shift), max(shift + part.high, *(old.high for old in slot.parts))
        if slot.piece is not None or high - low > slot.pitch:
            return False
        part.low, part.high = part.low + shift, part.high + shift
        slot.parts.append(part)
        if low < 0:
            self.drop(slot)
            slot.start += low
            for old in slot.parts:
                old.low, old.high = old.low - low, old.high - low
            self.put(slot)
        slot.end = slot.start + (slot.cols - 1) * slot.pitch + high - low
        return True
