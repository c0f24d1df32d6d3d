"""What a row of memory means: the value that it belongs to, named by how it was made.

A value is the operation with its parameters, its constants and the values that it read; two stripes of one
map have the same name exactly when they were made alike. Nothing else tells the verifier which stripes belong
together, and nothing else is needed. Invariants: ids are small integers; ``UNKNOWN`` fits everything, so that
what follows from a finding is not reported again.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

UNKNOWN = 0
MIXED = -1
"""No value: channels or columns of different rows or zero points."""

Share = tuple[int, int, int]
"""Channels or columns ``low..high`` of a value."""


@dataclass(frozen=True)
class Span:
    """Channels, columns or rows ``low..high`` of ``total`` (0: the same in all profiles)."""

    kind: str
    low: int
    high: int
    total: int

    def like(self, other: Span) -> bool:
        """Whether a slice of another profile may be the same one: as far from an end, or as far in
        proportion.
        """
        if self.kind != other.kind:
            return False
        if not self.total:
            return (self.low, self.high) == (other.low, other.high)
        ratio = self.low * other.total == other.low * self.total and self.high * other.total == other.high * self.total
        low = self.low == other.low or self.total - self.low == other.total - other.low
        high = self.high == other.high or self.total - self.high == other.total - other.high
        return ratio or (low and high)


@dataclass
class Values:
    """Names to ids, with each value's zero point, scale (None: not said yet), height so far, and the rows read
    of it. ``_cut``: whether columns are missing at the left and right edge of a value that is a part of others.
    """

    _ids: dict[Hashable, int] = field(default_factory=dict)
    zero_point: list[int] = field(default_factory=lambda: [-1])
    scale: list[float | None] = field(default_factory=lambda: [None])
    _height: list[int] = field(default_factory=lambda: [0])
    _read: dict[int, tuple[int, int]] = field(default_factory=dict)
    _made_of: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _above: dict[int, int] = field(default_factory=dict)
    _cut: dict[int, tuple[bool, bool]] = field(default_factory=dict)
    _span: dict[int, Span] = field(default_factory=dict)

    def intern(self, name: Hashable, zero_point: int, scale: float | None = None) -> int:
        """The id of a value, made when the name is new."""
        known = self._ids.get(name)
        if known is not None:
            return known
        self._ids[name] = known = len(self.zero_point)
        self.zero_point.append(zero_point)
        self.scale.append(scale)
        self._height.append(0)
        return known

    def beside(self, kind: str, parts: tuple[Share, ...]) -> int:
        """The value whose pixels (``channels``) or rows (``columns``) are made of others, MIXED when their
        zero points differ.
        """
        values = tuple(value for _, _, value in parts)
        if UNKNOWN in values or MIXED in values:
            return min(values)
        if len({self.zero_point[value] for value in values}) > 1:
            return MIXED
        ends = (values[:1], values[-1:]) if kind == "columns" else (values, values)
        return self._derived((kind, parts), values, self._missing(ends[0], 0), self._missing(ends[1], 1))

    def channels(self, value: int, low: int, high: int) -> int:
        """The value of some channels of another."""
        if value <= UNKNOWN:
            return value
        known = self._derived(("some channels", value, low, high), (value,), *self.cut(value))
        self._span[known] = Span("channels", low, high, 0)
        return known

    def columns(self, value: int, low: int, high: int, cols: int) -> int:
        """The value of some of the ``cols`` columns of another."""
        if value <= UNKNOWN:
            return value
        left, right = self.cut(value)
        name = ("some columns", value, low, high)
        known = self._derived(name, (value,), left or low > 0, right or high < cols)
        self._span[known] = Span("columns", low, high, cols)
        return known

    def spans(self, value: int) -> list[Span]:
        """Which channels and columns of other values the value is."""
        own = [self._span[value]] if value in self._span else []
        return own + [span for part in self._made_of.get(value, ()) for span in self.spans(part)]

    def below(self, parts: tuple[tuple[int, int], ...]) -> int:
        """The value whose rows are those of others, ``(rows, value)`` from the top."""
        values = tuple(value for _, value in parts)
        known = self._derived(("rows", parts), values, self._missing(values, 0), self._missing(values, 1))
        self._above[known] = sum(rows for rows, _ in parts[:-1])
        return known

    def _derived(self, name: Hashable, values: tuple[int, ...], left: bool = False, right: bool = False) -> int:
        known = self.intern(name, self.zero_point[values[0]], self.scale[values[0]])
        self._made_of[known] = values
        self._cut[known] = left, right
        return known

    def cut(self, value: int) -> tuple[bool, bool]:
        """Whether the value is a window that misses columns at the left, at the right."""
        return self._cut.get(value, (False, False))

    def _missing(self, values: tuple[int, ...], side: int) -> bool:
        return any(self.cut(value)[side] for value in values)

    def note_read(self, value: int, first: int, end: int) -> None:
        """Rows ``first..end`` of the value were read."""
        for part in self._made_of.get(value, ()):
            self.note_read(part, first, end)
        low, high = self._read.get(value, (first, end))
        self._read[value] = min(low, first), max(high, end)

    def rows_read(self, value: int) -> tuple[int, int]:
        """First and one past the last row that anyone read; (0, 0) when none was."""
        return self._read.get(value, (0, 0))

    def grow(self, value: int, rows: int) -> None:
        """The value is at least ``rows`` high."""
        if rows > self._height[value]:
            self._height[value] = rows

    def height(self, value: int) -> int:
        """Rows of the value that the stream has made so far."""
        parts = self._made_of.get(value)
        if parts is None:
            return self._height[value]
        if value in self._above:
            return self._above[value] + self.height(parts[-1])
        return min(self.height(part) for part in parts)

    def says(self, value: int, scale: float) -> bool:
        """Whether a reader's scale is the writer's; the first that says one decides."""
        if value == UNKNOWN:
            return True
        if self.scale[value] is None:
            self.scale[value] = scale
        return self.scale[value] == scale
