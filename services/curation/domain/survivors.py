"""Which members stay when duplicates go: the medoid, the hardest ones, and never next to nothing of a
source.

A single wrong cluster once removed 99.9998 % of a data source elsewhere. So no source (device class) may
lose more than a set share of its clustered segments: where it would, more of its hardest members are kept.
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
    sources: Sequence[str],
    keep_hardest: int,
    most_dropped: float,
) -> Survivors:
    """Apply the rule and the guard. `medoids[label]` is a position; noise (label -1) is always kept."""
    kept = labels < 0
    order = hardest_first(scores, ids)
    seen: dict[int, int] = {}
    for position in order:
        label = int(labels[position])
        if label >= 0 and seen.get(label, 0) < keep_hardest:
            seen[label] = seen.get(label, 0) + 1
            kept[position] = True
    for position in medoids:
        kept[position] = True
    return _guarded(kept, order, sources, most_dropped)


def _guarded(kept: NDArray[np.bool_], order: Sequence[int], sources: Sequence[str], most_dropped: float) -> Survivors:
    guarded = []
    for source in sorted(set(sources)):
        mine = [position for position in order if sources[position] == source]
        wanted = int(np.ceil(len(mine) * (1.0 - most_dropped) - 1e-9))
        missing = wanted - sum(1 for position in mine if kept[position])
        if missing <= 0:
            continue
        guarded.append(source)
        for position in [p for p in mine if not kept[p]][:missing]:
            kept[position] = True
    return Survivors(kept, tuple(guarded))
