"""Stripes: which rows of its result a command makes, from the rows that it reads and its pads.

The first stripe of an operation fixes where its source begins and how far the padding reaches above; every
later one follows. Invariant: padding stands only above the first and below the last row that an operation reads.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from compiler.verifier.findings import Report
from compiler.verifier.launches import Launches
from compiler.verifier.memory import Memory
from compiler.verifier.values import UNKNOWN


@dataclass
class Stripes:
    """Operations by name (see ``values.py``): first row read and pad above. ``single``: one video stream, so
    that a dispatch always is a later stripe.
    """

    report: Report
    launches: Launches
    memory: Memory
    single: bool
    _tops: dict[Hashable, tuple[int, int]] = field(default_factory=dict)
    _ends: dict[Hashable, int] = field(default_factory=dict)
    _bottoms: list[tuple[int, Hashable, int]] = field(default_factory=list)

    def base(self, name: Hashable) -> int:
        """The first row that the operation reads."""
        return self._tops[name][0] if name in self._tops else 0

    def place(self, index: int, name: Hashable, first: int, *, top: int = 0, stride: int = 1) -> int:
        """The first row of the result of a command that reads logical rows from ``first``."""
        if name not in self._tops and first and self.launches.again and self.single:
            self.report.add(index, "rows", f"a later stripe begins an operation at row {first} of its source")
        base, pad = self._tops.setdefault(name, (first, top))
        if top and first != base:
            self.report.add(index, "rows", f"pads above row {first}, the operation begins at row {base}")
        shift = first - base - top + pad
        if shift < 0 or shift % stride:
            self.report.add(index, "rows", f"row {first} of the source is not where a stripe begins")
            return 0
        self.launches.stripe(index, name, shift // stride)
        return shift // stride

    def bottom(self, index: int, name: Hashable, end: int, *, padded: bool) -> None:
        """The command reads up to stored row ``end - 1``, and may pad below it."""
        self._ends[name] = max(self._ends.get(name, 0), end)
        if padded:
            self._bottoms.append((index, name, end))

    def last(self, index: int, value: int, rows: int) -> None:
        """The command takes stored row ``rows - 1`` for the last of a value."""
        if value != UNKNOWN:
            self.memory.ends.append((index, value, rows))

    def finish(self) -> None:
        """At END: pads below stand behind the last row that is read, values end where commands thought so."""
        for index, name, end in self._bottoms:
            if self._ends[name] != end:
                text = f"pads below row {end - 1}, the operation reads up to row {self._ends[name] - 1}"
                self.report.add(index, "rows", text)
        for index, value, rows in self.memory.ends:
            height = self.memory.values.height(value)
            if height != rows:
                self.report.add(index, "rows", f"takes row {rows - 1} for the last of {height}")
