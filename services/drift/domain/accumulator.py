"""What a cohort saw on one day: the merged statistics of its devices, by frame and by device.

The weight by frame answers what the fleet looked at; the vote of each device (`votes`) is what tests use.
The cost of a test does not depend on the number of reports, because only this is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from contracts.statistics import DriftReport, Moments
from contracts.statistics.moments import BINS, DIMENSIONS, HISTOGRAMS, SUBSPACE
from services.drift.domain.votes import FLAT, Votes

Array = NDArray[np.float64]

_FRAME_SIZES = (1, 1, DIMENSIONS, DIMENSIONS, SUBSPACE, SUBSPACE * SUBSPACE, HISTOGRAMS * BINS)


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
        if len(numbers) != sum(_FRAME_SIZES) + FLAT:
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


def statistics_of(report: DriftReport, projection: NDArray[np.float32]) -> CohortDayStatistics:
    """Return the statistics of a single device-day; `projection` (28 x 256) is the observer's.

    The report does not carry the projected mean: the projection is linear, so it is the projected mean
    vector.
    """
    mean = report.mean.astype(np.float64)
    projected = projection.astype(np.float64) @ mean
    moments = Moments(
        count=report.frames,
        clipped=report.clipped,
        mean=mean,
        squares=report.variance.astype(np.float64) * report.frames,
        projected_mean=projected,
        projected_squares=report.projected_covariance.astype(np.float64) * report.frames,
        histogram=report.histogram.astype(np.int64),
    )
    return CohortDayStatistics(moments, Votes.of(projected, moments.histogram, report.score_mean))
