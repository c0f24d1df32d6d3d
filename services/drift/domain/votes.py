"""One device, one vote: statistics over device-days, mergeable in any order.

A busy device must not outvote a thousand quiet ones, and the only honest sample size of a cohort is its
number of devices. So every device-day enters once, with its projected mean, its histogram shares and its
score.

Invariant: merging is associative and commutative up to rounding of float64 (Chan's update, no sums of
squares).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contracts.statistics.moments import BINS, HISTOGRAMS, SUBSPACE

Array = NDArray[np.float64]

_SIZES = (1, SUBSPACE, SUBSPACE * SUBSPACE, HISTOGRAMS * BINS, HISTOGRAMS * BINS, 1)
FLAT = sum(_SIZES)
"""Numbers in the flat form of a `Votes`."""


@dataclass(frozen=True)
class Votes:
    """`count` device-days: mean (28) and co-moments (28 x 28) of their projected means, mean and squared
    deviations (8 x 16) of their histogram shares, and the mean of their quality scores (dB of expected
    loss).
    """

    count: int
    mean: Array
    comoments: Array
    shares: Array
    share_squares: Array
    score: float

    @classmethod
    def empty(cls) -> Votes:
        """No votes yet."""
        return cls(
            count=0,
            mean=np.zeros(SUBSPACE),
            comoments=np.zeros((SUBSPACE, SUBSPACE)),
            shares=np.zeros((HISTOGRAMS, BINS)),
            share_squares=np.zeros((HISTOGRAMS, BINS)),
            score=0.0,
        )

    @classmethod
    def of(cls, projected_mean: Array, histogram: NDArray[np.int64], score: float) -> Votes:
        """Return the single vote of one device-day. `histogram` (8 x 16) holds frame counts, each row above
        0.
        """
        empty = cls.empty()
        return cls(
            count=1,
            mean=projected_mean,
            comoments=empty.comoments,
            shares=histogram / histogram.sum(axis=1, keepdims=True),
            share_squares=empty.share_squares,
            score=score,
        )

    def merge(self, other: Votes) -> Votes:
        """Return the votes of both."""
        total = self.count + other.count
        if total == 0:
            return self
        share = other.count / total
        weight = self.count * share
        step, shift = other.mean - self.mean, other.shares - self.shares
        return Votes(
            count=total,
            mean=self.mean + step * share,
            comoments=self.comoments + other.comoments + np.outer(step, step) * weight,
            shares=self.shares + shift * share,
            share_squares=self.share_squares + other.share_squares + shift * shift * weight,
            score=self.score + (other.score - self.score) * share,
        )

    @property
    def share_variance(self) -> Array:
        """Unbiased variance (8 x 16) of the shares between devices; zero for fewer than two."""
        return self.share_squares / (self.count - 1) if self.count > 1 else np.zeros_like(self.share_squares)

    def flat(self) -> Array:
        """All numbers in one float64 array."""
        scalars = [np.array([float(self.count)]), np.array([self.score])]
        parts = (scalars[0], self.mean, self.comoments, self.shares, self.share_squares, scalars[1])
        return np.concatenate([part.ravel() for part in parts])

    @classmethod
    def from_flat(cls, numbers: Array) -> Votes:
        """Inverse of `flat`. Raises ValueError when the length is not `FLAT`."""
        if numbers.shape != (FLAT,):
            raise ValueError(f"stored votes hold {FLAT} numbers, got {numbers.shape}: written by another version")
        count, mean, comoments, shares, squares, score = np.split(numbers, np.cumsum(_SIZES)[:-1])
        return cls(
            count=int(count[0]),
            mean=mean,
            comoments=comoments.reshape(SUBSPACE, SUBSPACE),
            shares=shares.reshape(HISTOGRAMS, BINS),
            share_squares=squares.reshape(HISTOGRAMS, BINS),
            score=float(score[0]),
        )
