"""What a scan has found out so far, kept so that more points can be added, or that parts of a scan can be put together.

Adding points to DBSCAN only ever makes points core and sets larger, and near pairs may come in any order. So three
things are all there is to remember: how much weight each point has seen, which core points are joined, and the pairs
of which an end was not core. Removing points is not possible: cluster anew.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.curation.domain.scan.frame import Places

Numbers = NDArray[np.int32]


@dataclass(frozen=True)
class Grown:
    """Of n points, by given position.

    seen: weight within eps of each point, itself included, cut off at `min_samples`; a point is core where it reaches
    that. root: the first point of the same set, of a point in none the point itself. left, right: near pairs that
    are not joined because an end is not core yet (at most `min_samples` a point).
    """

    min_samples: int
    seen: Numbers
    root: Numbers
    left: Numbers
    right: Numbers

    def __len__(self) -> int:
        return len(self.seen)

    @property
    def core(self) -> NDArray[np.bool_]:
        """Which points are core."""
        core: NDArray[np.bool_] = self.seen >= self.min_samples
        return core

    def check(self) -> None:
        """Raise ValueError where the parts contradict each other (say, after they were read from a file)."""
        count = len(self.seen)
        sides = (self.root, self.left, self.right)
        if self.min_samples < 1 or len(self.root) != count or len(self.left) != len(self.right):
            raise ValueError("the parts of a kept clustering differ in length")
        if any(len(side) and not 0 <= int(side.min()) <= int(side.max()) < count for side in sides):
            raise ValueError("a kept clustering names points that it does not have")


def positions_without(count: int, fresh: Places) -> Places:
    """Return the positions 0..count-1 that are not among `fresh`, in order."""
    known = np.ones(count, dtype=np.bool_)
    known[fresh] = False
    return np.flatnonzero(known)
