"""DBSCAN of hard segments, with the labels that scikit-learn gives on all points.

Up to `DIRECT_POINTS` distinct points scikit-learn does it; above, where its neighbourhoods would not fit into memory,
the scan of `scan/` does. Every scan is audited by brute force on drawn points.

Invariant: labels equal `sklearn.cluster.DBSCAN(eps, min_samples).fit_predict(vectors)`, numbers included:
duplicates collapse in order of first appearance, so core points are visited in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import DBSCAN

from services.curation.domain.collapse import Collapsed
from services.curation.domain.scan.audit import recall
from services.curation.domain.scan.clusters import grow_clusters, settled
from services.curation.domain.scan.frame import Floats, Places
from services.curation.domain.scan.grown import Grown
from services.curation.domain.scan.limits import SCAN_LIMITS


class Scan(Protocol):
    """Finds what is known of distinct points with weights; see `scan.clusters.grow_clusters`."""

    def __call__(
        self,
        vectors: Floats,
        weights: NDArray[np.int64],
        eps: float,
        min_samples: int,
        fresh: Places | None = None,
        before: Grown | None = None,
    ) -> Grown: ...


NOISE = -1
DIRECT_POINTS = 20_000
LEAST_RECALL = 0.99


class NotClustered(ValueError):
    """No labels can be given; the message says why and what to do."""


class TooManyPoints(NotClustered):
    """More distinct points than are clustered at once."""


class RecallTooLow(NotClustered):
    """The audit found pairs that the labels do not honour."""


@dataclass(frozen=True)
class Labelled:
    """A label (or NOISE) for each original point, and the audited share of true pairs honoured (1.0: by definition).

    grown: what is known of the distinct points, where a scan found it.
    """

    labels: NDArray[np.int64]
    recall: float
    grown: Grown | None = None


@dataclass(frozen=True)
class Earlier:
    """Distinct points at the positions that are not `fresh` were clustered before, and `grown` is what is known."""

    fresh: Places
    grown: Grown


def cluster_labels(collapsed: Collapsed, eps: float, min_samples: int, most_points: int) -> NDArray[np.int64]:
    """Return a label (or NOISE) for each original point; see `cluster_points`."""
    return cluster_points(collapsed, eps, min_samples, most_points).labels


def cluster_points(
    collapsed: Collapsed,
    eps: float,
    min_samples: int,
    most_points: int,
    direct_points: int = DIRECT_POINTS,
    scan: Scan = grow_clusters,
    earlier: Earlier | None = None,
) -> Labelled:
    """Cluster points; above `direct_points` distinct ones by the scan.

    Raises TooManyPoints above `most_points` distinct points, before any work, and RecallTooLow.
    """
    count = len(collapsed.rows)
    if count == 0:
        return Labelled(np.zeros(0, dtype=np.int64), 1.0)
    _refuse_too_many(collapsed, min_samples, most_points)
    if count <= direct_points:
        model = DBSCAN(eps=eps, min_samples=min_samples, algorithm="brute")
        labels = model.fit_predict(collapsed.rows, sample_weight=collapsed.weights)
        return Labelled(np.asarray(labels[collapsed.index], dtype=np.int64), 1.0)
    before = (earlier.fresh, earlier.grown) if earlier else (None, None)
    grown = scan(collapsed.rows, collapsed.weights, eps, min_samples, *before)
    found = settled(grown)
    share = recall(collapsed.rows, collapsed.weights, eps, min_samples, found)
    if share < LEAST_RECALL:
        raise RecallTooLow(
            f"of the pairs within {eps:g} of {SCAN_LIMITS.audit_queries} drawn segments the clusters honour "
            f"{share:.4f}, at least {LEAST_RECALL} is asked for; nothing was written, report this run as a fault"
        )
    return Labelled(found.labels[collapsed.index], share, grown)


def _refuse_too_many(collapsed: Collapsed, min_samples: int, most_points: int) -> None:
    count, width = collapsed.rows.shape
    if count > most_points:
        needed = count * (12 * width + 200) / 2**30
        raise TooManyPoints(
            f"{count} distinct segments need about {needed:.1f} GiB, at most {most_points} are clustered at once; "
            "shorten the window"
        )
    if count > DIRECT_POINTS and count * min_samples > SCAN_LIMITS.pending:
        raise TooManyPoints(
            f"{count} distinct segments with min_samples {min_samples} may need {count * min_samples * 8 / 2**30:.1f} "
            f"GiB of pairs; choose min_samples up to {SCAN_LIMITS.pending // count} or shorten the window"
        )
