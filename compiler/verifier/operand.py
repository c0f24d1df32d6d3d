"""A tensor as a command reads it."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.verifier.regions import Region
from contracts.npu import Layout


@dataclass(frozen=True)
class Operand:
    """A region, and the value that was found there, from its stored row ``first``; ``row`` is that row as the
    command sees it.
    """

    region: Region
    value: int
    first: int
    row: int

    @property
    def end(self) -> int:
        """One past the last stored row."""
        return self.first + self.region.rows

    @property
    def name(self) -> tuple[int, int, int]:
        """What tells operands apart in the name of a result."""
        return self.value, self.region.layout, self.region.block

    def logical_height(self, stored: int) -> int:
        """Logical rows of a map of ``stored`` rows, seen as the command sees it."""
        if self.region.layout == Layout.S2D:
            return stored // self.region.block
        return stored * self.region.block if self.region.layout == Layout.NEAREST else stored
