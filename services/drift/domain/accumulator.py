"""What a cohort saw on one day: the merged statistics of its devices, by frame and by device.

The weight by frame answers what the fleet looked at; the vote of each device (`votes`) is what tests use.
The cost of a test does not depend on the number of reports, because only this is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from contracts.statistics import DriftReport, Moments
from contracts.statistics.moments import BINS, DIMENSIONS, HISTOGRAMS, SUBSPACE
from services.drift.domain.reading import Reading
from services.drift.domain.votes import FLAT, FLAT_WITHOUT_TALLIES, Votes

Array = NDArray[np.float64]

_FRAME_SIZES = (1, 1, DIMENSIONS, DIMENSIONS, SUBSPACE, SUBSPACE * SUBSPACE, HISTOGRAMS * BINS)

BLOCK = 500
"""Reports merged at once: about 5 MB."""


@dataclass(frozen=True)
class CohortDayStatistics:
    """Frame-weighted `moments` and one-device-one-vote `votes` of a cohort-day."""

    moments: Moments = field(default_factory=Moments)
    votes: Votes = field(default_factory=Votes.empty)

    def merge(self, other: CohortDayStatistics) -> CohortDayStatistics:
        """Return the statistics of both, in either order."""
        return CohortDayStatistics(self.moments.merge(other.moments), self.votes.merge(other.votes))

    def to_bytes(self) -> bytes:
        """Write as little-endian float64; counts below 2^53 stay exact."""
        m = self.moments
        parts = (
            np.array([float(m.count)]),
            np.array([float(m.clipped)]),
            m.mean,
            m.squares,
            m.projected_mean,
            m.projected_squares,
            m.histogram.astype(np.float64),
            self.votes.flat(),
        )
        return np.concatenate([part.ravel() for part in parts]).astype("<f8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> CohortDayStatistics:
        """Inverse of `to_bytes`. Raises ValueError when the bytes were written by another version."""
        numbers = np.frombuffer(data, "<f8").astype(np.float64)
        if len(numbers) - sum(_FRAME_SIZES) not in (FLAT, FLAT_WITHOUT_TALLIES):
            raise ValueError(f"stored cohort-day holds {len(numbers)} numbers: written by another version")
        count, clipped, mean, squares, projected, comoments, histogram, votes = np.split(
            numbers, np.cumsum(_FRAME_SIZES)
        )
        moments = Moments(
            count=int(count[0]),
            clipped=int(clipped[0]),
            mean=mean,
            squares=squares,
            projected_mean=projected,
            projected_squares=comoments.reshape(SUBSPACE, SUBSPACE),
            histogram=histogram.astype(np.int64).reshape(HISTOGRAMS, BINS),
        )
        return cls(moments, Votes.from_flat(votes))


def statistics_of(reports: Sequence[DriftReport], reading: Reading) -> CohortDayStatistics:
    """Return the merged statistics of device-days of one cohort, in whatever order they come.

    `reading` is that of their common observer. The cost is linear in the reports and memory is bounded by a block.
    """
    total = CohortDayStatistics()
    for start in range(0, len(reports), BLOCK):
        total = total.merge(_block(reports[start : start + BLOCK], reading))
    return total


def _block(reports: Sequence[DriftReport], reading: Reading) -> CohortDayStatistics:
    frames = np.array([report.frames for report in reports], dtype=np.float64)
    means = np.stack([report.mean for report in reports]).astype(np.float64)
    variances = np.stack([report.variance for report in reports]).astype(np.float64)
    covariances = np.stack([report.projected_covariance for report in reports]).astype(np.float64)
    histograms = np.stack([report.histogram for report in reports])
    projected = reading.projected(means)
    centre, projected_centre = frames @ means / frames.sum(), frames @ projected / frames.sum()
    apart = projected - projected_centre
    moments = Moments(
        count=int(frames.sum()),
        clipped=sum(report.clipped for report in reports),
        mean=centre,
        squares=frames @ (variances + np.square(means - centre)),
        projected_mean=projected_centre,
        projected_squares=np.tensordot(frames, covariances, axes=1) + (apart * frames[:, None]).T @ apart,
        histogram=histograms.sum(axis=0, dtype=np.int64),
    )
    votes = Votes.of_devices(
        projected,
        histograms / histograms.sum(axis=2, keepdims=True),
        np.array([report.score_mean for report in reports], dtype=np.float64),
        reading.log_residuals(means, variances, projected, covariances),
    )
    return CohortDayStatistics(moments, votes)
