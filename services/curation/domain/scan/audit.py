"""Does the outcome honour what brute force finds? The check of every large run, independent of the scan.

For drawn points all neighbours are found in float64. Each pair of a drawn point and a neighbour is honoured when the
outcome treats it as DBSCAN must: the drawn point is core, and in a cluster, exactly if its neighbourhood weighs
enough; two core points share a cluster; a neighbour of a core point is no noise; a border point is in the first
cluster near it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from services.curation.domain.scan.clusters import Clusters
from services.curation.domain.scan.frame import SEED, Array, Floats, Mask, Places
from services.curation.domain.scan.limits import SCAN_LIMITS, ScanLimits

NOISE = -1


def recall(
    vectors: Floats,
    weights: NDArray[np.int64],
    eps: float,
    min_samples: int,
    found: Clusters,
    limits: ScanLimits = SCAN_LIMITS,
) -> float:
    """Return the share of true pairs of drawn points that `found` honours; 1.0 where no drawn point has a neighbour."""
    drawn = np.random.default_rng(SEED).permutation(len(vectors))[: limits.audit_queries]
    heavy = weights[drawn].astype(np.float64)
    pairs, joined = np.zeros(len(drawn), dtype=np.int64), np.zeros(len(drawn), dtype=np.int64)
    first = np.full(len(drawn), np.iinfo(np.int64).max)
    for query, other in _neighbours(vectors, drawn, eps, limits.audit_rows):
        pairs += np.bincount(query, minlength=len(drawn))
        heavy += np.bincount(query, weights[other], minlength=len(drawn))
        joined += np.bincount(query[_joined(drawn[query], other, found)], minlength=len(drawn))
        core = found.core[other]
        np.minimum.at(first, query[core], found.labels[other[core]])
    labels, lonely = found.labels[drawn], first == np.iinfo(np.int64).max
    border = np.where(lonely, labels == NOISE, (labels == first) & (labels != NOISE))
    core = heavy >= min_samples
    honoured = np.where(core, np.where(labels != NOISE, joined, 0), np.where(border, pairs, 0))
    honoured[found.core[drawn] != core] = 0
    return float(honoured.sum() / pairs.sum()) if pairs.any() else 1.0


def _joined(query: Places, other: Places, found: Clusters) -> Mask:
    """Whether a neighbour is treated as one of a core point."""
    mine, its = found.labels[query], found.labels[other]
    joined: Mask = np.where(found.core[other], its == mine, (its != NOISE) & (its <= mine))
    return joined


def _neighbours(vectors: Floats, drawn: Places, eps: float, rows: int) -> Iterator[tuple[Places, Places]]:
    """Yield (index into `drawn`, position of a neighbour), never a point itself, for some rows at a time."""
    queries = _extended(vectors[drawn])
    queries[:, -2:] = queries[:, [-1, -2]]
    closeness = np.empty(len(drawn) * rows)
    for begin in range(0, len(vectors), rows):
        part = _extended(vectors[begin : begin + rows])
        near = np.matmul(queries, part.T, out=closeness[: len(drawn) * len(part)].reshape(len(drawn), len(part)))
        query, other = np.divmod(np.flatnonzero(near >= -0.5 * eps * eps), len(part))
        other += begin
        apart = drawn[query] != other
        yield query[apart], other[apart]


def _extended(rows: Floats) -> Array:
    """Rows with 1 and -|y|^2/2 behind: a row times a row with these two swapped is -distance^2/2."""
    wide = np.ones((len(rows), rows.shape[1] + 2))
    wide[:, :-2] = rows
    wide[:, -1] = -0.5 * np.einsum("ij,ij->i", wide[:, :-2], wide[:, :-2])
    return wide
