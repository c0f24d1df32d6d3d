"""Does the training set reach a cluster: the share of members near a training vector.

Near is what the training set itself calls near: `eps_cov`, the 95th percentile of the distance from a
training vector to the nearest one of ANOTHER video. Members of one video resemble each other too much to
tell.

Invariant: adding vectors never loosens `eps_cov` of a successor (see `tightened`), so coverage cannot rise
by training on things far away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances_argmin_min

from contracts.wire.curation import CoverageState

Array = NDArray[np.float64]

QUANTILE = 0.95
Z95 = 1.959963984540054


@dataclass(frozen=True)
class ClusterCoverage:
    """Share of members reached, with its 95 % Wilson interval."""

    state: CoverageState
    members: int
    covered: int
    share: float
    low: float
    high: float


def eps_cov(vectors: NDArray[np.float32], videos: Sequence[str]) -> float | None:
    """Return the distance that counts as near, or None for vectors of fewer than two videos."""
    names = np.asarray(videos)
    if len(set(videos)) < 2:
        return None
    distances = np.concatenate(
        [nearest_distance(vectors[names == video], vectors[names != video]) for video in sorted(set(videos))]
    )
    return float(np.quantile(distances, QUANTILE))


def tightened(own: float | None, inherited: float | None, default: float) -> float:
    """Return the radius of a training set that grew out of another: never wider than its parent's."""
    known = [value for value in (own, inherited) if value is not None]
    return min(known) if known else default


def nearest_distance(points: NDArray[np.float32], training: NDArray[np.float32]) -> Array:
    """Return the distance of each point to its nearest training vector; infinite without training vectors."""
    if len(points) == 0 or len(training) == 0:
        return np.full(len(points), np.inf)
    return nearest(points, training)[1]


def nearest(points: NDArray[np.float32], training: NDArray[np.float32]) -> tuple[NDArray[np.int64], Array]:
    """Return row of and distance to the nearest training vector of each point (at least one of both)."""
    rows, distances = pairwise_distances_argmin_min(points, training)
    return np.asarray(rows, dtype=np.int64), np.asarray(distances, dtype=np.float64)


def cluster_coverage(distances: Array, eps: float, covered_share: float, uncovered_share: float) -> ClusterCoverage:
    """Judge one cluster by its members' distances to the training set (at least one member)."""
    return judged(int(np.count_nonzero(distances <= eps)), len(distances), covered_share, uncovered_share)


def judged(covered: int, members: int, covered_share: float, uncovered_share: float) -> ClusterCoverage:
    """Judge one cluster by how many of its members (at least one) are reached."""
    share = covered / members
    low, high = wilson_interval(covered, members)
    state = CoverageState.PARTIAL
    if share >= covered_share:
        state = CoverageState.COVERED
    elif share < uncovered_share:
        state = CoverageState.UNCOVERED
    return ClusterCoverage(state, members, covered, share, low, high)


def wilson_interval(hits: int, trials: int) -> tuple[float, float]:
    """Return the 95 % score interval of a share (Wilson 1927); (0, 1) without trials."""
    if trials == 0:
        return 0.0, 1.0
    share, square = hits / trials, Z95**2
    centre = (share + square / (2 * trials)) / (1 + square / trials)
    half = Z95 * np.sqrt(share * (1 - share) / trials + square / (4 * trials**2)) / (1 + square / trials)
    return float(max(0.0, centre - half)), float(min(1.0, centre + half))
