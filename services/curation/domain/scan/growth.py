"""From near pairs, in any order, to DBSCAN's clusters.

A point is core once the weight of its neighbours, itself included, reaches `min_samples`; that never changes back.
Pairs of two core points join their sets. A pair with a point that is not core yet is remembered; such a point has
seen less than `min_samples`, so at most `min_samples` pairs a point are remembered.
"""

from __future__ import annotations

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from services.curation.domain.scan.forest import Forest
from services.curation.domain.scan.frame import Mask, Places
from services.curation.domain.scan.pairs import Pairs, Patch

NOISE = -1


class Growth:
    """State of a scan; `add` may be called from several threads."""

    def __init__(self, weights: NDArray[np.int64], min_samples: int) -> None:
        self._enough = min_samples
        self._weights = np.minimum(weights, min_samples)
        self._seen = self._weights.copy()
        self.core: Mask = self._seen >= min_samples
        self.forest = Forest(len(weights))
        self._pending: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = []
        self._lock = Lock()

    def add(self, found: Pairs | Patch) -> None:
        """Take near pairs, each pair of places once in the whole scan."""
        with self._lock:
            if isinstance(found, Pairs):
                self._add_pairs(found.left, found.right)
            else:
                self._add_patch(found)

    def labels(self, order: Places) -> tuple[NDArray[np.int64], Mask]:
        """Return labels and core flags by given position; `order` is the given position of each place.

        Clusters are numbered by their first core point; a border point belongs to the first cluster near it.
        """
        left, right = self._remembered()
        both = self.core[left] & self.core[right]
        self.forest.unite(left[both], right[both])
        labels = self._core_labels(order)
        border = self.core[left] != self.core[right]
        left, right = left[border], right[border]
        inner, outer = np.where(self.core[left], left, right), np.where(self.core[left], right, left)
        reached = np.full(len(labels), np.iinfo(np.int64).max)
        np.minimum.at(reached, outer, labels[inner])
        labels[outer] = reached[outer]
        given, core = np.empty_like(labels), np.empty_like(self.core)
        given[order], core[order] = labels, self.core
        return given, core

    def _core_labels(self, order: Places) -> NDArray[np.int64]:
        labels = np.full(len(order), NOISE, dtype=np.int64)
        core = np.flatnonzero(self.core)
        core = core[np.argsort(order[core], kind="stable")]
        _, first, member = np.unique(self.forest.roots(core), return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        labels[core] = rank[member]
        return labels

    def _remembered(self) -> tuple[Places, Places]:
        if not self._pending:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        left, right = (np.concatenate(side).astype(np.int64) for side in zip(*self._pending, strict=True))
        return left, right

    def _add_pairs(self, left: Places, right: Places) -> None:
        np.add.at(self._seen, left, self._weights[right])
        np.add.at(self._seen, right, self._weights[left])
        self._judge(left)
        self._judge(right)
        self._keep(left, right)

    def _keep(self, left: Places, right: Places) -> None:
        """Join pairs of core points and remember the others."""
        both = self.core[left] & self.core[right]
        self.forest.unite(left[both], right[both])
        if not both.all():
            self._pending.append((left[~both].astype(np.int32), right[~both].astype(np.int32)))

    def _judge(self, places: Places) -> None:
        self.core[places] |= self._seen[places] >= self._enough

    def _add_patch(self, patch: Patch) -> None:
        rows, columns, near = patch.rows, patch.columns, patch.near
        numbers = near.astype(np.float32)
        np.add.at(self._seen, rows, (numbers @ self._weights[columns].astype(np.float32)).astype(np.int64))
        np.add.at(self._seen, columns, (self._weights[rows].astype(np.float32) @ numbers).astype(np.int64))
        self._judge(rows)
        self._judge(columns)
        open_pairs = near & ~(self.core[rows][:, None] & self.core[columns])
        row, column = np.divmod(np.flatnonzero(open_pairs), len(columns))
        self._keep(rows[row], columns[column])
        self._join(rows, columns, near & ~open_pairs)

    def _join(self, rows: Places, columns: Places, near: Mask) -> None:
        """Unite all near pairs of core points: a spanning few first, then those still in different sets."""
        row = np.flatnonzero(near.any(axis=1))
        self.forest.unite(rows[row], columns[near[row].argmax(axis=1)])
        column = np.flatnonzero(near.any(axis=0))
        self.forest.unite(rows[near[:, column].argmax(axis=0)], columns[column])
        apart = near & (self.forest.roots(rows)[:, None] != self.forest.roots(columns))
        row, column = np.divmod(np.flatnonzero(apart), len(columns))
        self.forest.unite(rows[row], columns[column])
