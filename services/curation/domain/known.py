"""What a run leaves for the next one, so that a day's new segments cost what they are, not what all are.

The next run clusters the same segments and the new ones with the same eps. New points are compared with all, old ones
not with each other again; labels equal those of clustering everything at once. Where a segment is gone, eps is another
one or nothing was left, everything is clustered anew: removing points would change what is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.curation.domain.collapse import Collapsed, collapse
from services.curation.domain.scan.frame import Floats, Places
from services.curation.domain.scan.grown import Grown, Numbers

Ids = NDArray[np.bytes_]


@dataclass(frozen=True)
class Known:
    """ids: of the segments, rising. point: the distinct point of each; points are numbered by their first segment."""

    ids: Ids
    point: Numbers
    eps: float
    grown: Grown

    def check(self) -> None:
        """Raise ValueError where the parts contradict each other."""
        self.grown.check()
        if len(self.ids) != len(self.point) or np.any(self.ids[1:] <= self.ids[:-1]):
            raise ValueError("the segments of a kept clustering are not in order")
        if len(self.point) and len(np.unique(self.point)) != len(self.grown):
            raise ValueError("a kept clustering has points without a segment")


@dataclass(frozen=True)
class Extended:
    """All distinct points, and which of them are new."""

    collapsed: Collapsed
    fresh: Places
    inserted: int


def id_array(ids: Sequence[str]) -> Ids:
    """Ids (plain ASCII) as one array of bytes, in the given order."""
    return np.array([name.encode("ascii") for name in ids], dtype="S64")


def holds(ids: Sequence[str], known: Known) -> bool:
    """Whether all known segments are among some."""
    return bool(np.isin(known.ids, id_array(ids), assume_unique=True).all())


def extended(known: Known, ids: Sequence[str], vectors: Floats) -> Extended | None:
    """Add segments to those known; None where a known one is missing. `ids` are rising, `vectors` go by them.

    New repeats of a known point become points of their own: to DBSCAN that is the same.
    """
    old = np.isin(id_array(ids), known.ids, assume_unique=True)
    if int(np.count_nonzero(old)) != len(known.ids):
        return None
    places, added = np.flatnonzero(old), np.flatnonzero(~old)
    new = collapse(vectors[added])
    count, index = len(known.grown), np.empty(len(ids), dtype=np.int64)
    index[places], index[added] = known.point, new.index + count
    first = np.full(count + len(new.rows), len(ids), dtype=np.int64)
    np.minimum.at(first, index, np.arange(len(ids)))
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    weights = np.bincount(index, minlength=len(order))
    collapsed = Collapsed(vectors[first[order]], weights[order], rank[index])
    return Extended(collapsed, np.sort(rank[count:]), len(added))
