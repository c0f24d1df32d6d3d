"""One cell scanned alone, and all of them put together.

A cell's own points see all of their neighbours, so whether they are core is known there. A pair across a border is
seen from both sides; where it could not be joined there, because an end was not known to be core, it is handed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.curation.domain.scan.clusters import grow_clusters
from services.curation.domain.scan.forest import Forest
from services.curation.domain.scan.frame import Floats, Places
from services.curation.domain.scan.grown import Grown
from services.curation.domain.scan.limits import SCAN_LIMITS, ScanLimits
from services.curation.domain.shards.cells import Cell, cut_into_cells
from services.curation.domain.shards.executor import Executor


@dataclass(frozen=True)
class Part:
    """What one call needs: own points first, `own` of them, then the halo."""

    places: Places
    own: int
    vectors: Floats
    weights: NDArray[np.int64]
    eps: float
    min_samples: int
    limits: ScanLimits


@dataclass(frozen=True)
class PartOutcome:
    """What is known of the points at some places after one call."""

    places: Places
    own: int
    grown: Grown


@dataclass(frozen=True)
class ShardedScan:
    """A scan in `cells` parts by an executor; stands in for `grow_clusters`."""

    executor: Executor
    cells: int
    limits: ScanLimits = SCAN_LIMITS

    def __call__(
        self,
        vectors: Floats,
        weights: NDArray[np.int64],
        eps: float,
        min_samples: int,
        fresh: Places | None = None,
        before: Grown | None = None,
    ) -> Grown:
        """Like `grow_clusters`. What is added to known points is little, so it is done here, in one part."""
        if before is not None:
            return grow_clusters(vectors, weights, eps, min_samples, fresh, before, self.limits)
        if not np.isfinite(vectors).all():
            raise ValueError("a vector holds a value that is not finite; leave it out")
        cells = cut_into_cells(vectors, eps, self.cells, self.limits)
        parts = _parts(cells, vectors, weights, eps, min_samples, self.limits)
        return merged(self.executor.map(scan_part, parts), len(vectors), min_samples)


def scan_part(part: Part) -> PartOutcome:
    """Scan one cell with its halo; pairs of two points of the halo are their own cells' business."""
    own = np.arange(part.own)
    grown = grow_clusters(part.vectors, part.weights, part.eps, part.min_samples, own, limits=part.limits)
    return PartOutcome(part.places, part.own, grown)


def merged(outcomes: Iterable[PartOutcome], count: int, min_samples: int) -> Grown:
    """Put the outcomes of all cells of `count` points together."""
    seen, forest = np.zeros(count, dtype=np.int32), Forest(count)
    left, right = [np.zeros(0, dtype=np.int32)], [np.zeros(0, dtype=np.int32)]
    for outcome in outcomes:
        places, grown = outcome.places, outcome.grown
        seen[places[: outcome.own]] = grown.seen[: outcome.own]
        forest.unite(places[grown.root], places)
        left.append(places[grown.left].astype(np.int32))
        right.append(places[grown.right].astype(np.int32))
    root = forest.roots(np.arange(count)).astype(np.int32)
    return Grown(min_samples, seen, root, np.concatenate(left), np.concatenate(right))


def _parts(
    cells: Iterable[Cell],
    vectors: Floats,
    weights: NDArray[np.int64],
    eps: float,
    min_samples: int,
    limits: ScanLimits,
) -> Iterator[Part]:
    for cell in cells:
        places = np.concatenate([cell.own, cell.halo])
        yield Part(places, len(cell.own), vectors[places], weights[places], eps, min_samples, limits)
