"""Points as the scan reads them: in order of their blocks, in float32.

Stored twice: all coordinates, and the leading few that decide most pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from services.curation.domain.scan.blocks import Bounds, cut_into_blocks
from services.curation.domain.scan.frame import Floats, Frame, Places, drawn, frame_of, short_terms
from services.curation.domain.scan.grown import positions_without
from services.curation.domain.scan.limits import ScanLimits


@dataclass(frozen=True)
class Layout:
    """Points in the order of the scan.

    order: the given position of each place. starts: first place of each block, and the end of the last; places
    behind that end are in no block, so no two of them are compared. points: n x d. halves:
    -|y|^2/2 of each row y. short: n x (terms + 2), the first `terms` coordinates with their -|y|^2/2 and 1 behind,
    so that a row times a row with the last two swapped is -distance^2/2.
    """

    frame: Frame
    order: Places
    starts: Places
    bounds: Bounds
    points: Floats
    halves: Floats
    short: Floats

    @property
    def blocks(self) -> int:
        return len(self.starts) - 1

    def places(self, block: int) -> Places:
        """The places of a block."""
        return np.arange(self.starts[block], self.starts[block + 1])


def lay_out(vectors: Floats, eps: float, limits: ScanLimits, fresh: Places | None = None) -> Layout:
    """Arrange points (n x d, n >= 1, finite); in blocks only those at the positions `fresh` (default: all)."""
    frame = frame_of(vectors, limits)
    chosen = vectors if fresh is None else vectors[fresh]
    blocks = cut_into_blocks(chosen, frame, eps * frame.scale, limits)
    order = blocks.order
    if fresh is not None:
        order = np.concatenate([fresh[order], positions_without(len(vectors), fresh)])
    terms = short_terms(frame.apply(drawn(vectors, limits.sample)), eps * frame.scale, limits)
    points = np.empty(vectors.shape, dtype=np.float32)
    halves = np.empty(len(vectors), dtype=np.float32)
    short = np.ones((len(vectors), terms + 2), dtype=np.float32)
    for first in range(0, len(vectors), limits.rows):
        part = slice(first, first + limits.rows)
        points[part] = frame.apply(vectors[order[part]])
        squares = np.square(points[part], dtype=np.float64)
        halves[part], short[part, terms] = -0.5 * squares.sum(axis=1), -0.5 * squares[:, :terms].sum(axis=1)
        short[part, :terms] = points[part, :terms]
    return Layout(frame, order, blocks.starts, blocks.bounds, points, halves, short)
