"""Points cut into cells of nearly equal size, each with the points around it that a point of the cell may be near.

Cells are boxes along the principal axes: the widest is halved until there are enough. Turning changes no distance, so a
point is as far from the points of a box as from the box, or farther.
Invariant: a point within eps of a cell's point is in the cell or in its halo (rounding allowed for).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from services.curation.domain.scan.frame import Array, Floats, Mask, Places, frame_of
from services.curation.domain.scan.limits import SCAN_LIMITS, ScanLimits

AXES = 16
SLACK = 1e-9
"""Of rows of norm 1: far above what float64 loses in turning them, far below any eps that counts."""


@dataclass(frozen=True)
class Cell:
    """Positions of the cell's own points (in order) and of those around it."""

    own: Places
    halo: Places


def cut_into_cells(vectors: Floats, eps: float, count: int, limits: ScanLimits = SCAN_LIMITS) -> Iterator[Cell]:
    """Cut points (n x d, finite) into at most `count` cells, none empty."""
    frame = frame_of(vectors, limits)
    width = min(AXES, vectors.shape[1])
    rows = np.empty((len(vectors), width))
    for first in range(0, len(vectors), limits.rows):
        part = slice(first, first + limits.rows)
        rows[part] = frame.apply(vectors[part])[:, :width]
    reach = eps * frame.scale + SLACK
    for own in _boxes(rows, np.arange(len(rows)), count):
        around = _within(rows, rows[own].min(axis=0), rows[own].max(axis=0), reach, limits)
        around[own] = False
        yield Cell(np.sort(own), np.flatnonzero(around))


def _boxes(rows: Array, places: Places, count: int) -> Iterator[Places]:
    """Split in two across the widest axis, in proportion to the cells that each side is to have."""
    if count < 2 or len(places) < 2:
        yield places
        return
    axis = int(np.ptp(rows[places], axis=0).argmax())
    cut = max(1, len(places) * (count // 2) // count)
    order = places[np.argpartition(rows[places, axis], cut - 1)]
    yield from _boxes(rows, order[:cut], count // 2)
    yield from _boxes(rows, order[cut:], count - count // 2)


def _within(rows: Array, low: Array, high: Array, reach: float, limits: ScanLimits) -> Mask:
    """Rows at most `reach` away from a box."""
    near = np.empty(len(rows), dtype=np.bool_)
    for first in range(0, len(rows), limits.rows):
        part = rows[first : first + limits.rows]
        gap = np.maximum(low - part, 0.0) + np.maximum(part - high, 0.0)
        near[first : first + limits.rows] = np.einsum("ij,ij->i", gap, gap) <= reach * reach
    return near
