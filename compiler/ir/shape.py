"""Operators that change extents or names and no value: borders, channel orders, windows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pad:
    """A border of the zero point: top, bottom, left, right. Legalisation leaves none."""

    name: str
    source: str
    result: str
    pads: tuple[int, int, int, int]
    origin: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """Values read."""
        return (self.source,)


@dataclass(frozen=True)
class Permute:
    """Result channel k is source channel ``order[k]``. Legalisation leaves none."""

    name: str
    source: str
    result: str
    order: tuple[int, ...]
    origin: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """Values read."""
        return (self.source,)


@dataclass(frozen=True)
class Join:
    """Says that ``result`` is complete: ``sources`` are windows of it. Costs no command."""

    name: str
    sources: tuple[str, ...]
    result: str
    origin: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """Values read."""
        return self.sources


@dataclass(frozen=True)
class Part:
    """Names a window of ``source``; ``result`` has it as its ``window``. Costs no command."""

    name: str
    source: str
    result: str
    origin: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """Values read."""
        return (self.source,)
