"""From a forest of core points and the remembered pairs to labels, numbered as scikit-learn numbers them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from services.curation.domain.scan.forest import Forest
from services.curation.domain.scan.frame import Mask, Places

NOISE = -1


def labels_of(core: Mask, forest: Forest, left: Places, right: Places) -> NDArray[np.int64]:
    """Return a label for each position. `left` and `right` are all near pairs that the forest does not hold.

    Clusters are numbered by their first core point; a border point belongs to the first cluster near it.
    """
    both = core[left] & core[right]
    forest.unite(left[both], right[both])
    labels = _core_labels(core, forest)
    border = core[left] != core[right]
    left, right = left[border], right[border]
    inner, outer = np.where(core[left], left, right), np.where(core[left], right, left)
    reached = np.full(len(labels), np.iinfo(np.int64).max)
    np.minimum.at(reached, outer, labels[inner])
    labels[outer] = reached[outer]
    return labels


def _core_labels(core: Mask, forest: Forest) -> NDArray[np.int64]:
    """The root of a set is its first position, so the order of roots is the order of clusters."""
    labels = np.full(len(core), NOISE, dtype=np.int64)
    places = np.flatnonzero(core)
    _, labels[places] = np.unique(forest.roots(places), return_inverse=True)
    return labels
