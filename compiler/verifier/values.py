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


@dataclass
class Values:
    """Names to ids, with each value's zero point, scale (None: not said yet) and height so far."""

    _ids: dict[Hashable, int] = field(default_factory=dict)
    zero_point: list[int] = field(default_factory=lambda: [-1])
    scale: list[float | None] = field(default_factory=lambda: [None])
    _height: list[int] = field(default_factory=lambda: [0])
    _made_of: dict[int, tuple[int, ...]] = field(default_factory=dict)

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
        points = {self.zero_point[value] for value in values}
        return MIXED if len(points) > 1 else self._derived((kind, parts), values)

    def window(self, kind: str, value: int, low: int, high: int) -> int:
        """The value of some channels or columns of another."""
        return value if value <= UNKNOWN else self._derived((f"some {kind}", value, low, high), (value,))

    def below(self, parts: tuple[tuple[int, int], ...]) -> int:
        """The value whose rows are those of others, ``(rows, value)`` from the top."""
        return self._derived(("rows", parts), tuple(value for _, value in parts))

    def _derived(self, name: Hashable, values: tuple[int, ...]) -> int:
        known = self.intern(name, self.zero_point[values[0]], self.scale[values[0]])
        self._made_of[known] = values
        return known

    def grow(self, value: int, rows: int) -> None:
        """The value is at least ``rows`` high."""
        if rows > self._height[value]:
            self._height[value] = rows

    def height(self, value: int) -> int:
        """Rows of the value that the stream has made so far."""
        parts = self._made_of.get(value)
        return self._height[value] if parts is None else min(self.height(part) for part in parts)

    def says(self, value: int, scale: float) -> bool:
        """Whether a reader's scale is the writer's; the first that says one decides."""
        if value == UNKNOWN:
            return True
        if self.scale[value] is None:
            self.scale[value] = scale
        return self.scale[value] == scale
