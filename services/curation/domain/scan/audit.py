"""Does the outcome honour what brute force finds? The check of every large run, independent of the scan.

For drawn points scikit-learn lists all neighbours. Each pair of a drawn point and a neighbour is honoured when the
outcome treats it as DBSCAN must: the drawn point is core exactly if its neighbourhood weighs enough; two core points
share a cluster; a neighbour of a core point is no noise; a border point is in the first cluster near it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from services.curation.domain.scan.clusters import Clusters
from services.curation.domain.scan.frame import SEED, Floats, Mask, Places
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
    search = NearestNeighbors(radius=eps, algorithm="brute").fit(vectors)
    pairs = honoured = 0
    for first in range(0, len(drawn), limits.audit_batch):
        queries = drawn[first : first + limits.audit_batch]
        near = search.radius_neighbors(vectors[queries], return_distance=False)
        for query, neighbours in zip(queries.tolist(), near, strict=True):
            others = neighbours[neighbours != query]
            core = int(weights[query]) + int(weights[others].sum()) >= min_samples
            pairs += len(others)
            honoured += int(np.count_nonzero(_honoured(query, others, core, found)))
    return honoured / pairs if pairs else 1.0


def _honoured(query: int, others: Places, core: bool, found: Clusters) -> Mask:
    label, labels, cores = found.labels[query], found.labels[others], found.core[others]
    if bool(found.core[query]) != core or (core and label == NOISE):
        return np.zeros(len(others), dtype=np.bool_)
    if core:
        joined: Mask = np.where(cores, labels == label, (labels != NOISE) & (labels <= label))
        return joined
    reached = labels[cores]
    return np.full(len(others), label == (reached.min() if len(reached) else NOISE), dtype=np.bool_)
