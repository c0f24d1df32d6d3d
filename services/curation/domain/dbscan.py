"""DBSCAN of hard segments, with the labels that scikit-learn gives on all points.

Invariant: labels equal `sklearn.cluster.DBSCAN(eps, min_samples).fit_predict(vectors)`, numbers included:
duplicates collapse in order of first appearance, so core points are visited in the same order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import DBSCAN

from services.curation.domain.collapse import Collapsed

NOISE = -1


class TooManyPoints(ValueError):
    """More distinct points than neighbourhoods fit into memory; the message says how many and what to do."""


def cluster_labels(collapsed: Collapsed, eps: float, min_samples: int, most_points: int) -> NDArray[np.int64]:
    """Return a label (or NOISE) for each original point.

    Raises TooManyPoints above `most_points` distinct points, before any work.
    """
    if len(collapsed.rows) == 0:
        return np.zeros(0, dtype=np.int64)
    if len(collapsed.rows) > most_points:
        needed = len(collapsed.rows) ** 2 * 8 / 2**30
        raise TooManyPoints(
            f"{len(collapsed.rows)} distinct segments may need {needed:.0f} GiB of neighbourhoods, at most "
            f"{most_points} are clustered at once; shorten the window"
        )
    model = DBSCAN(eps=eps, min_samples=min_samples, algorithm="brute")
    labels = model.fit_predict(collapsed.rows, sample_weight=collapsed.weights)
    return np.asarray(labels[collapsed.index], dtype=np.int64)
