"""Follows the rows of every ring through a frame: which row of the map lies where, and how often it was updated.

A command reads neighbouring rows of one state of a map. Where a ring is too short, or a row is updated in place before
its last reader, the rows of some read are no longer neighbours, or not of one state. The pixels look plausible; this
finds it from the stream alone. Invariant: a command that adds in place (its target is exactly its residual) updates
rows, every other writer brings the next rows of a map.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from contracts.npu.program import Space
from edge_agent.runtime.npu.commands import Command
from edge_agent.runtime.npu.regions import Region, same_place

_Places = NDArray[np.intp]
_EMPTY = -1


@dataclass
class _Ring:
    """What each row of one ring holds."""

    rows: int
    row: NDArray[np.int64] = field(init=False)
    updates: NDArray[np.int64] = field(init=False)
    base: int = 0

    def __post_init__(self) -> None:
        self.row = np.full(self.rows, _EMPTY, np.int64)
        self.updates = np.zeros(self.rows, np.int64)

    def bring(self, places: _Places) -> None:
        """Rows arrive: behind their neighbours, else as rows of the same map, else as the first of a new one."""
        start = int(places[0])
        before, there = int(self.row[start - 1]), int(self.row[start])
        if before != _EMPTY and before + 1 > there:
            first = before + 1
        elif there == _EMPTY:
            first = self.base + start
        else:
            self.base = (int(self.row.max()) // self.rows + 1) * self.rows
            first = self.base + start
        self.row[places] = np.arange(first, first + len(places))
        self.updates[places] = 0

    def fault(self, places: _Places) -> str | None:
        """Return what is wrong with a read of these rows."""
        rows = self.row[places]
        if (rows == _EMPTY).any():
            return None  # nothing wrote them: the poisoned run tells
        if (np.diff(rows) != 1).any():
            return "reads rows of a ring that are no neighbours: some were overwritten"
        if len(np.unique(self.updates[places])) > 1:
            return "reads rows of a ring of which only some were updated"
        return None


def torn_reads(commands: list[Command]) -> Iterator[str]:
    """Yield each read of ring rows that do not belong together."""
    rings: dict[tuple[int, int, int], _Ring] = {}
    for command in commands:
        for region in command.reads:
            ring = rings.get(_key(region)) if _is_ring(region) else None
            fault = ring.fault(_places(region)) if ring else None
            if fault:
                yield f"{command.where} {fault}"
        target = command.target
        if not _is_ring(target):
            continue
        ring = rings.setdefault(_key(target), _Ring(target.ring_rows))
        if command.residual is not None and same_place(command.residual, target):
            ring.updates[_places(target)] += 1
        else:
            ring.bring(_places(target))


def _is_ring(region: Region) -> bool:
    return region.space == Space.SRAM and region.ring_rows > 0


def _key(region: Region) -> tuple[int, int, int]:
    return region.offset, region.ring_rows, region.row_stride


def _places(region: Region) -> _Places:
    return (region.ring_first + np.arange(region.rows)) % region.ring_rows
