"""Dead writes: rows that were made and never read, which means that live ranges overlap or that work is wasted.

Only rows above the first or below the last row that anyone reads of their value may stay unread: a slice or a
stride cuts them off. That is known at END, so rows are collected and judged there.
"""

from __future__ import annotations

from compiler.verifier.findings import Report
from compiler.verifier.limits import LIMITS
from compiler.verifier.values import Values

AT_END = -1


class Unread:
    """Rows that nobody read before they were written again, or before END."""

    def __init__(self, report: Report, values: Values) -> None:
        self._report = report
        self._values = values
        self._rows: dict[tuple[int, int, int], tuple[int, int]] = {}

    def add(self, index: int, writer: int, value: int, row: int) -> None:
        """Row ``row`` of a value, written by ``writer``, is overwritten by command ``index``."""
        key = index, writer, value
        low, high = self._rows.get(key, (row, row + 1))
        if len(self._rows) < LIMITS.unread or key in self._rows:
            self._rows[key] = min(low, row), max(high, row + 1)

    def finish(self) -> None:
        """Report what a slice or a stride does not explain."""
        for (index, writer, value), (low, high) in sorted(self._rows.items()):
            first, end = self._values.rows_read(value)
            cut_off = first < end and (high <= first or end <= low)
            if not cut_off:
                self._tell(index, writer, low, high)

    def _tell(self, index: int, writer: int, low: int, high: int) -> None:
        if index == AT_END:
            self._report.add(writer, "dead write", f"rows {low}..{high} are never read")
        else:
            text = f"overwrites rows {low}..{high} that command {writer} wrote and nobody read"
            self._report.add(index, "overlap of live ranges", text)
