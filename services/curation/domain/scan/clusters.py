"""The scan itself: every block against itself, then against the candidates behind it.

Points that are core and known to be in one set need no further comparison with each other; in crowded data, where
a point has thousands of neighbours, that is nearly all pairs.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it has no stubs

from services.curation.domain.scan.candidates import candidates
from services.curation.domain.scan.forest import Forest
from services.curation.domain.scan.frame import Floats, Mask, Places
from services.curation.domain.scan.grown import Grown
from services.curation.domain.scan.growth import Growth
from services.curation.domain.scan.layout import Layout, lay_out
from services.curation.domain.scan.limits import SCAN_LIMITS, ScanLimits
from services.curation.domain.scan.outcome import labels_of
from services.curation.domain.scan.pairs import PairTest


@dataclass(frozen=True)
class Clusters:
    """Labels (-1: noise) and which points are core, in the order of the given points."""

    labels: NDArray[np.int64]
    core: Mask


def find_clusters(
    vectors: Floats, weights: NDArray[np.int64], eps: float, min_samples: int, limits: ScanLimits = SCAN_LIMITS
) -> Clusters:
    """DBSCAN of distinct points (n x d, n >= 1) with weights.

    Raises ValueError where a vector is not finite.
    """
    return settled(grow_clusters(vectors, weights, eps, min_samples, limits=limits))


def grow_clusters(
    vectors: Floats,
    weights: NDArray[np.int64],
    eps: float,
    min_samples: int,
    fresh: Places | None = None,
    before: Grown | None = None,
    limits: ScanLimits = SCAN_LIMITS,
) -> Grown:
    """Find the near pairs that have an end among the positions `fresh` (default: all), added to those known before.

    `before` tells of the positions that are not fresh, in order (default: nothing). With it, the outcome is that of a
    scan of all points, at the cost of the fresh ones. Raises ValueError where a vector is not finite.
    """
    if fresh is not None and before is not None and len(fresh) == 0:
        return before
    if not np.isfinite(vectors).all():
        row = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
        raise ValueError(f"vector {row} holds a value that is not finite; leave it out")
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(limits.workers) as pool:
        layout = lay_out(vectors, eps, limits, fresh)
        growth = Growth(weights[layout.order], min_samples)
        if before is not None:
            growth.resume(before, np.arange(layout.starts[-1], len(vectors)))
        scan = _Scan(layout, PairTest(layout, vectors, eps, limits), growth, limits)
        scan.inside()
        for _ in pool.map(scan.across, range(0, layout.blocks, limits.group)):
            pass
    return growth.grown(layout.order)


def settled(grown: Grown) -> Clusters:
    """Labels and core points of what is known; those of all points when that is all near pairs."""
    forest = Forest(len(grown))
    forest.unite(grown.root.astype(np.int64), np.arange(len(grown)))
    core = grown.core
    return Clusters(labels_of(core, forest, grown.left.astype(np.int64), grown.right.astype(np.int64)), core)


@dataclass(frozen=True)
class _Scan:
    layout: Layout
    test: PairTest
    growth: Growth
    limits: ScanLimits

    def inside(self) -> None:
        """Compare every block with itself."""
        for block in range(self.layout.blocks):
            for found in self.test.within(self.layout.places(block)):
                self.growth.add(found)

    def across(self, first: int) -> None:
        """Compare a group of blocks, from the first, with everything behind each."""
        blocks = range(first, min(first + self.limits.group, self.layout.blocks))
        for block, rows in zip(blocks, candidates(self.layout, blocks, self.limits), strict=True):
            self._block(rows, self.layout.places(block))

    def _block(self, rows: Places, columns: Places) -> None:
        joined = self._largest_set(columns)
        settled = self._in_set(rows, joined) if joined >= 0 else np.zeros(len(rows), dtype=np.bool_)
        if not settled.any():
            return self._compare(rows, columns)
        self._compare(rows[settled], columns[~self._in_set(columns, joined)])
        return self._compare(rows[~settled], columns)

    def _compare(self, rows: Places, columns: Places) -> None:
        for found in self.test.between(rows, columns):
            self.growth.add(found)

    def _largest_set(self, columns: Places) -> int:
        """Root of the set that holds at least half of the columns as core points; -1 without one."""
        roots = self.growth.forest.roots(columns[self.growth.core[columns]])
        if 2 * len(roots) < len(columns):
            return -1
        found, counts = np.unique(roots, return_counts=True)
        best = int(counts.argmax())
        return int(found[best]) if 2 * counts[best] >= len(columns) else -1

    def _in_set(self, places: Places, root: int) -> Mask:
        inside = self.growth.core[places]
        core = np.flatnonzero(inside)
        inside[core] = self.growth.forest.in_set(places[core], root)
        return inside
