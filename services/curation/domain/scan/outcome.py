"""From a forest of core points and the remembered pairs to labels, numbered as scikit-learn numbers them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from services.curation.domain.scan.forest import Forest
from services.curation.domain.scan.frame import Mask, Places

NOISE = -1


def labels_of(core: Mask, forest: Forest, left: Places, right: Places, order: Places) -> tuple[NDArray[np.int64], Mask]:
    """Return labels and core flags by given position; `order` is the given position of each place.

    `left` and `right` are all near pairs that the forest does not hold. Clusters are numbered by their first core
    point; a border point belongs to the first cluster near it.
    """
    both = core[left] & core[right]
    forest.unite(left[both], right[both])
    labels = _core_labels(core, forest, order)
    border = core[left] != core[right]
    left, right = left[border], right[border]
    inner, outer = np.where(core[left], left, right), np.where(core[left], right, left)
    reached = np.full(len(labels), np.iinfo(np.int64).max)
    np.minimum.at(reached, outer, labels[inner])
    labels[outer] = reached[outer]
    given, given_core = np.empty_like(labels), np.empty_like(core)
    given[order], given_core[order] = labels, core
    return given, given_core


def _core_labels(core: Mask, forest: Forest, order: Places) -> NDArray[np.int64]:
    labels = np.full(len(order), NOISE, dtype=np.int64)
    places = np.flatnonzero(core)
    places = places[np.argsort(order[places], kind="stable")]
    _, first, member = np.unique(forest.roots(places), return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    labels[places] = rank[member]
    return labels
