"""One device, one vote: statistics over device-days, mergeable in any order.

A busy device must not outvote a thousand quiet ones, and the only honest sample size of a cohort is its
number of devices. So every device-day enters once, with its projected mean, its histogram shares, its score
and its energy outside the subspace.

Invariant: merging is associative and commutative up to rounding of float64 (Chan's update, no sums of
squares).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from contracts.statistics.moments import BINS, HISTOGRAMS, SUBSPACE
from services.drift.domain.tally import SIZE, Tally

Array = NDArray[np.float64]

_SIZES = (1, SUBSPACE, SUBSPACE * SUBSPACE, HISTOGRAMS * BINS, HISTOGRAMS * BINS)
FLAT_WITHOUT_TALLIES = sum(_SIZES) + 1
"""Numbers in the form written before scores and energies had a spread; it ends with the mean score."""

FLAT = sum(_SIZES) + 2 * SIZE
"""Numbers in the flat form of a `Votes`."""


@dataclass(frozen=True)
class Votes:
    """`count` device-days: mean (28) and co-moments (28 x 28) of their projected means, mean and squared
    deviations (8 x 16) of their histogram shares, their quality scores (dB of expected loss) and the natural
    logarithms of their energies outside the subspace.
    """

    count: int
    mean: Array
    comoments: Array
    shares: Array
    share_squares: Array
    scores: Tally = field(default_factory=Tally)
    residual: Tally = field(default_factory=Tally)

    @classmethod
    def empty(cls) -> Votes:
        """No votes yet."""
        return cls(
            count=0,
            mean=np.zeros(SUBSPACE),
            comoments=np.zeros((SUBSPACE, SUBSPACE)),
            shares=np.zeros((HISTOGRAMS, BINS)),
            share_squares=np.zeros((HISTOGRAMS, BINS)),
        )

    @classmethod
    def of_devices(cls, means: Array, shares: Array, scores: Array, residuals: Array) -> Votes:
        """Return the votes of n device-days at once.

        `means` (n x 28) are projected means, `shares` (n x 8 x 16) histogram shares, `scores` (n) and
        `residuals` (n) one number a device.
        """
        if not len(means):
            return cls.empty()
        mean, share = means.mean(axis=0), shares.mean(axis=0)
        centred = means - mean
        return cls(
            count=len(means),
            mean=mean,
            comoments=centred.T @ centred,
            shares=share,
            share_squares=np.square(shares - share).sum(axis=0),
            scores=Tally.of(scores),
            residual=Tally.of(residuals),
        )

    @classmethod
    def of(
        cls, projected_mean: Array, histogram: NDArray[np.int64], score: float, residual: float | None = None
    ) -> Votes:
        """Return the single vote of one device-day. `histogram` (8 x 16) holds frame counts, each row above
        0.
        """
        shares = histogram / histogram.sum(axis=1, keepdims=True)
        outside = np.array([] if residual is None else [residual])
        return cls.of_devices(projected_mean[None], shares[None], np.array([score]), outside)

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
            scores=self.scores.merge(other.scores),
            residual=self.residual.merge(other.residual),
        )

    @property
    def score(self) -> float:
        """Mean quality score of the devices, dB of expected loss."""
        return self.scores.mean

    @property
    def share_variance(self) -> Array:
        """Unbiased variance (8 x 16) of the shares between devices; zero for fewer than two."""
        return self.share_squares / (self.count - 1) if self.count > 1 else np.zeros_like(self.share_squares)

    def flat(self) -> Array:
        """All numbers in one float64 array."""
        arrays = (self.mean, self.comoments, self.shares, self.share_squares)
        parts = (np.array([float(self.count)]), *arrays, self.scores.flat(), self.residual.flat())
        return np.concatenate([part.ravel() for part in parts])

    @classmethod
    def from_flat(cls, numbers: Array) -> Votes:
        """Inverse of `flat`, or of the form without tallies. Raises ValueError at any other length."""
        if numbers.shape not in ((FLAT,), (FLAT_WITHOUT_TALLIES,)):
            raise ValueError(f"stored votes hold {FLAT} numbers, got {numbers.shape}: written by another version")
        count, mean, comoments, shares, squares, rest = np.split(numbers, np.cumsum(_SIZES))
        tallies = len(rest) == 2 * SIZE
        return cls(
            count=int(count[0]),
            mean=mean,
            comoments=comoments.reshape(SUBSPACE, SUBSPACE),
            shares=shares.reshape(HISTOGRAMS, BINS),
            share_squares=squares.reshape(HISTOGRAMS, BINS),
            scores=Tally.from_flat(rest[:SIZE]) if tallies else Tally(),
            residual=Tally.from_flat(rest[SIZE:]) if tallies else Tally(),
        )
