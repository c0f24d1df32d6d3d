"""Which later points can lie within eps of some point of a block, by the block's bound (`blocks.py`).

Invariant: with the rounding allowed for, no point within eps of the block is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from services.curation.domain.scan.frame import Places
from services.curation.domain.scan.layout import Layout
from services.curation.domain.scan.limits import ScanLimits


def candidates(layout: Layout, blocks: range, limits: ScanLimits) -> Sequence[Places]:
    """Return, for each of some neighbouring blocks, the places behind it that may be near."""
    part = slice(blocks.start, blocks.stop)
    normals, least = layout.bounds.normals[part], layout.bounds.least[part, None]
    balls = np.flatnonzero(layout.bounds.round[part])
    found: list[list[Places]] = [[] for _ in blocks]
    for begin in range(int(layout.starts[blocks.start + 1]), len(layout.points), limits.rows):
        end = begin + limits.rows
        along = normals @ layout.points[begin:end].T
        along[balls] += layout.halves[begin:end]
        possible = along >= least
        for places, row in zip(found, possible, strict=True):
            places.append(np.flatnonzero(row) + begin)
    return [_behind(parts, int(layout.starts[block + 1])) for parts, block in zip(found, blocks, strict=True)]


def _behind(parts: Sequence[Places], end: int) -> Places:
    places = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
    return places[np.searchsorted(places, end) :]
