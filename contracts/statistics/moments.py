"""Mergeable moments of embeddings in reference units.

Welford's update for single frames, Chan's for merging (Chan, Golub, LeVeque 1979): no sums of squares, so
nothing cancels. The order of frames and of merges does not matter up to rounding of float64.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

DIMENSIONS = 256
SUBSPACE = 28
HISTOGRAMS = 8
BINS = 16

Array = NDArray[np.float64]


def _zeros(*shape: int) -> Array:
    return np.zeros(shape, dtype=np.float64)


@dataclass
class Moments:
    """Count, mean and squared deviations (256), co-moments in the 28-d subspace, and 8 x 16 histogram counts."""

    count: int = 0
    clipped: int = 0
    mean: Array = field(default_factory=lambda: _zeros(DIMENSIONS))
    squares: Array = field(default_factory=lambda: _zeros(DIMENSIONS))
    projected_mean: Array = field(default_factory=lambda: _zeros(SUBSPACE))
    projected_squares: Array = field(default_factory=lambda: _zeros(SUBSPACE, SUBSPACE))
    histogram: NDArray[np.int64] = field(default_factory=lambda: np.zeros((HISTOGRAMS, BINS), dtype=np.int64))

    def add(self, z: Array, projected: Array, bins: NDArray[np.int64], clipped: bool = False) -> None:
        """Take one frame: `z` float[256] in reference units, `projected` float[28], `bins` int[8] in 0..15."""
        self.count += 1
        self.clipped += int(clipped)
        delta = z - self.mean
        self.mean = self.mean + delta / self.count
        self.squares = self.squares + delta * (z - self.mean)
        step = projected - self.projected_mean
        self.projected_mean = self.projected_mean + step / self.count
        self.projected_squares = self.projected_squares + np.outer(step, projected - self.projected_mean)
        self.histogram[np.arange(HISTOGRAMS), bins] += 1

    def merge(self, other: Moments) -> Moments:
        """Return what one device that saw both streams would hold."""
        total = self.count + other.count
        if total == 0:
            return Moments()
        share = other.count / total
        delta = other.mean - self.mean
        step = other.projected_mean - self.projected_mean
        weight = self.count * share
        return Moments(
            count=total,
            clipped=self.clipped + other.clipped,
            mean=self.mean + delta * share,
            squares=self.squares + other.squares + delta * delta * weight,
            projected_mean=self.projected_mean + step * share,
            projected_squares=self.projected_squares + other.projected_squares + np.outer(step, step) * weight,
            histogram=self.histogram + other.histogram,
        )

    @property
    def variance(self) -> Array:
        """Population variance of each of the 256 dimensions; zero when nothing was seen."""
        return self.squares / self.count if self.count else _zeros(DIMENSIONS)

    @property
    def projected_covariance(self) -> Array:
        """Population covariance (28 x 28) in the subspace; zero when nothing was seen."""
        return self.projected_squares / self.count if self.count else _zeros(SUBSPACE, SUBSPACE)
