"""Which members stay when duplicates go: the medoid, the hardest ones, and never next to nothing of a
source.

A single wrong cluster once removed 99.9998 % of a data source elsewhere. So no source (device class, model version)
may lose more than a set share of its segments: where it would, more of its hardest members are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Survivors:
    """Which segments are kept, and for which sources the guard had to keep more than the rule does."""

    kept: NDArray[np.bool_]
    guarded: tuple[str, ...]


def hardest_first(scores: NDArray[np.float64], ids: Sequence[str]) -> list[int]:
    """Return positions by falling score; equal scores in order of id."""
    return sorted(range(len(ids)), key=lambda index: (-float(scores[index]), ids[index]))


def choose_survivors(
    labels: NDArray[np.int64],
    medoids: Sequence[int],
    scores: NDArray[np.float64],
    ids: Sequence[str],
    sources: Sequence[Sequence[str]],
    keep_hardest: int,
    most_dropped: float,
) -> Survivors:
    """Apply the rule and the guard. `medoids[label]` is a position; noise (label -1) is always kept.

    `sources` are ways to name where a segment came from, each a name for every segment or empty.
    """
    kept = labels < 0
    order = np.array(hardest_first(scores, ids), dtype=np.int64)
    kept[order[_rank_in_group(labels[order]) < keep_hardest]] = True
    kept[np.asarray(medoids, dtype=np.int64)] = True
    guarded: list[str] = []
    for names in sources:
        if len(names):
            guarded += _guard(kept, order, names, most_dropped)
    return Survivors(kept, tuple(guarded))


def _rank_in_group(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many of the same label come before each."""
    order = np.argsort(labels, kind="stable")
    first = np.searchsorted(labels[order], labels[order])
    rank = np.empty(len(labels), dtype=np.int64)
    rank[order] = np.arange(len(labels)) - first
    return rank


def _guard(kept: NDArray[np.bool_], order: NDArray[np.int64], names: Sequence[str], most_dropped: float) -> list[str]:
    """Keep more of the hardest where a source would lose too much; return the names of those sources."""
    guarded = []
    known, source = np.unique(np.asarray(names), return_inverse=True)
    for index, name in enumerate(known.tolist()):
        mine = order[source[order] == index]
        wanted = int(np.ceil(len(mine) * (1.0 - most_dropped) - 1e-9))
        missing = wanted - int(np.count_nonzero(kept[mine]))
        if missing > 0:
            guarded.append(name)
            kept[mine[~kept[mine]][:missing]] = True
    return guarded
