"""Stripes: which rows of its result a command makes, from the rows that it reads and its pads.

The first stripe of an operation fixes where its source begins and how far the padding reaches above; every
later one follows. Invariant: padding stands only outside of a map, above its first and below its last row.
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

    def place(self, index: int, name: Hashable, first: int, *, top: int = 0, stride: int = 1) -> int:
        """The first row of the result of a command that reads logical rows from ``first``."""
        if name not in self._tops and first and self.launches.again and self.single:
            self.report.add(index, "rows", f"a later stripe begins an operation at row {first} of its source")
        base, pad = self._tops.setdefault(name, (first, top))
        if top and first:
            self.report.add(index, "rows", f"pads above row {first} of its source")
        shift = first - base - top + pad
        if shift < 0 or shift % stride:
            self.report.add(index, "rows", f"row {first} of the source is not where a stripe begins")
            return 0
        self.launches.stripe(index, name, shift // stride)
        return shift // stride

    def last(self, index: int, value: int, rows: int) -> None:
        """The command takes stored row ``rows - 1`` for the last of a value."""
        if value != UNKNOWN:
            self.memory.ends.append((index, value, rows))

    def finish(self) -> None:
        """At END: values end where commands thought so."""
        for index, value, rows in self.memory.ends:
            height = self.memory.values.height(value)
            if height != rows:
                self.report.add(index, "rows", f"takes row {rows - 1} for the last of {height}")
