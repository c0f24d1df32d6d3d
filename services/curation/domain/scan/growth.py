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
from services.curation.domain.scan.grown import Grown, Numbers
from services.curation.domain.scan.pairs import Pairs, Patch


class Growth:
    """State of a scan; `add` may be called from several threads."""

    def __init__(self, weights: NDArray[np.int64], min_samples: int) -> None:
        self._enough = min_samples
        self._weights = np.minimum(weights, min_samples)
        self._seen = self._weights.copy()
        self.core: Mask = self._seen >= min_samples
        self.forest = Forest(len(weights))
        self._pending: list[tuple[Numbers, Numbers]] = []
        self._lock = Lock()

    def add(self, found: Pairs | Patch) -> None:
        """Take near pairs, each pair of places once in the whole scan."""
        with self._lock:
            if isinstance(found, Pairs):
                self._add_pairs(found.left, found.right)
            else:
                self._add_patch(found)

    def resume(self, before: Grown, places: Places) -> None:
        """Begin with what is known of some points; `places[i]` is the place of point i of `before`."""
        self._seen[places] = before.seen
        self._judge(places)
        self.forest.unite(places[before.root], places)
        self._pending.append((places[before.left].astype(np.int32), places[before.right].astype(np.int32)))

    def grown(self, order: Places) -> Grown:
        """Return what is known by given position; `order` is the given position of each place."""
        left, right = self._remembered()
        both = self.core[left] & self.core[right]
        self.forest.unite(left[both], right[both])
        seen, root = np.empty(len(order), dtype=np.int32), np.empty(len(order), dtype=np.int32)
        seen[order] = np.minimum(self._seen, self._enough)
        member = self.forest.roots(np.arange(len(order)))
        first = np.full(len(order), len(order), dtype=np.int32)
        np.minimum.at(first, member, order.astype(np.int32))
        root[order] = first[member]
        ends = (order[side[~both]].astype(np.int32) for side in (left, right))
        return Grown(self._enough, seen, root, *ends)

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
        if self._one_set(rows, columns):
            return
        row = np.flatnonzero(near.any(axis=1))
        self.forest.unite(rows[row], columns[near[row].argmax(axis=1)])
        column = np.flatnonzero(near.any(axis=0))
        self.forest.unite(rows[near[:, column].argmax(axis=0)], columns[column])
        if self._one_set(rows, columns):
            return
        apart = near & (self.forest.roots(rows)[:, None] != self.forest.roots(columns))
        row, column = np.divmod(np.flatnonzero(apart), len(columns))
        self.forest.unite(rows[row], columns[column])

    def _one_set(self, rows: Places, columns: Places) -> bool:
        """Whether all of some places are in one set."""
        roots = self.forest.roots(columns)
        root = int(roots[0])
        return bool((roots == root).all() and (self.forest.roots(rows) == root).all())
