"""The radius of DBSCAN, read from the data: the knee of the sorted k-distance curve.

Inside clusters the distance to the k-th neighbour is small and even; noise makes the curve turn up. The
knee is the point farthest below the chord of the curve; a fifth more keeps the rim of a cluster with it.
Bounds keep a degenerate curve from choosing nothing or everything.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from services.curation.domain.collapse import Collapsed

Array = NDArray[np.float64]

SLACK = 1.2


@dataclass(frozen=True)
class Epsilon:
    """The radius, and where it came from: `settings`, `knee`, `floor` or `ceiling`."""

    value: float
    source: str


def choose_epsilon(collapsed: Collapsed, k: int, floor: float, ceiling: float, largest_sample: int) -> Epsilon:
    """Choose the radius for points that need `k` neighbours (themselves included) to be core.

    Distances are taken from an evenly spaced sample of at most `largest_sample` points to all points.
    """
    if len(collapsed.rows) < 2:
        return Epsilon(floor, "floor")
    knee = SLACK * _knee(np.sort(_k_distances(collapsed, k, largest_sample)))
    if knee <= floor:
        return Epsilon(floor, "floor")
    if knee >= ceiling:
        return Epsilon(ceiling, "ceiling")
    return Epsilon(knee, "knee")


def _k_distances(collapsed: Collapsed, k: int, largest_sample: int) -> Array:
    """Distance to the k-th neighbour, duplicates counted as often as they came."""
    rows = collapsed.rows
    step = max(1, -(-len(rows) // largest_sample))
    neighbours = min(k, len(rows))
    found = NearestNeighbors(n_neighbors=neighbours, algorithm="brute").fit(rows).kneighbors(rows[::step])
    reached = np.cumsum(collapsed.weights[found[1]], axis=1) >= k
    column = np.where(reached.any(axis=1), reached.argmax(axis=1), neighbours - 1)
    distances = np.take_along_axis(np.asarray(found[0], dtype=np.float64), column[:, None], axis=1)[:, 0]
    return np.repeat(distances, collapsed.weights[::step])


def _knee(curve: Array) -> float:
    """The value where the rising `curve` lies farthest below the chord between its ends."""
    span = curve[-1] - curve[0]
    if len(curve) < 3 or span <= 0:
        return float(curve[-1])
    chord = np.linspace(0.0, 1.0, len(curve))
    return float(curve[int(np.argmax(chord - (curve - curve[0]) / span))])
