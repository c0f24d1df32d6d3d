"""A disjoint-set forest over positions, many unions at a time.

Invariant: a parent is never behind its child, so every root is the first of its set.
"""

from __future__ import annotations

import numpy as np

from services.curation.domain.scan.frame import Mask, Places


class Forest:
    """Sets of positions 0..n-1. `roots` may be read while another thread unites; `unite` needs a lock."""

    def __init__(self, count: int) -> None:
        self._parent = np.arange(count, dtype=np.int64)

    def roots(self, positions: Places) -> Places:
        """Return the root of each position."""
        parent = self._parent
        found = parent[positions]
        while True:
            above = parent[found]
            if (above == found).all():
                return found
            found = above

    def in_set(self, positions: Places, root: int) -> Mask:
        """Return which positions are in the set of a root; False where that is not known yet."""
        above = self._parent[positions]
        inside: Mask = above == root
        others = np.flatnonzero(~inside)
        inside[others] = self.roots(above[others]) == root
        return inside

    def unite(self, left: Places, right: Places) -> None:
        """Join the sets of `left[i]` and `right[i]`, for every i."""
        while len(left):
            one, other = self.roots(left), self.roots(right)
            self._parent[left], self._parent[right] = one, other
            apart = one != other
            left, right = one[apart], other[apart]
            np.minimum.at(self._parent, np.maximum(left, right), np.minimum(left, right))
