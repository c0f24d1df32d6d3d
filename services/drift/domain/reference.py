"""What a cohort looked like when all was well, and how much its devices differ.

A cohort is its own baseline: its first days after a release, frozen. One cohort of 80 devices is too small to
estimate 406 covariances, so the shape of the spread between devices is pooled over cohorts, each centred on
its own day; the size of the spread is the cohort's own. (Pooled without the size, a cohort that is a bit
wider than the others raised false alarms on 21 % of healthy days at a nominal 5 %.)

Invariant: no difference between cohorts or between days ever enters the spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from contracts.statistics.moments import SUBSPACE
from services.drift.domain.tally import Tally
from services.drift.domain.votes import FLAT, FLAT_WITHOUT_TALLIES, Votes

Array = NDArray[np.float64]

VARIANCE_FLOOR = 1e-6
"""Smallest variance between devices along any direction: reports carry means as float16, about 1e-3."""

SMALLEST_SIZE = 0.01
"""Devices of a cohort are never taken to be more than ten times as alike as those of all cohorts."""


@dataclass(frozen=True)
class Within:
    """Squared deviations of one number a device around each day's own mean, and their degrees of freedom."""

    squares: float = 0.0
    freedom: int = 0

    def add(self, day: Tally) -> Within:
        """Return this with one more day."""
        return Within(self.squares + day.squares, self.freedom + max(day.count - 1, 0))

    @property
    def variance(self) -> float:
        """Variance between devices of one day; zero when nothing tells."""
        return self.squares / self.freedom if self.freedom else 0.0


@dataclass(frozen=True)
class Reference:
    """Votes of all device-days of the window, and their deviations around each day's own mean."""

    votes: Votes
    within: Array
    freedom: int
    scores: Within = field(default_factory=Within)
    residual: Within = field(default_factory=Within)

    @classmethod
    def of_days(cls, days: Sequence[Votes]) -> Reference:
        """Join the days of a window. Raises ValueError without any day."""
        if not days:
            raise ValueError("a reference needs at least one day")
        total, within, freedom = days[0], np.zeros_like(days[0].comoments), 0
        scores, residual = Within(), Within()
        for index, day in enumerate(days):
            total = total.merge(day) if index else day
            within = within + day.comoments
            freedom += max(day.count - 1, 0)
            scores, residual = scores.add(day.scores), residual.add(day.residual)
        return cls(total, within, freedom, scores, residual)

    def to_bytes(self) -> bytes:
        """Write as little-endian float64."""
        tail = [self.freedom, self.scores.squares, self.scores.freedom, self.residual.squares, self.residual.freedom]
        parts = (self.votes.flat(), self.within.ravel(), np.array(tail, dtype=np.float64))
        return np.concatenate(parts).astype("<f8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Reference:
        """Inverse of `to_bytes`, or of the form written before scores and energies had a spread."""
        numbers = np.frombuffer(data, "<f8").astype(np.float64)
        square = SUBSPACE * SUBSPACE
        if len(numbers) not in (FLAT + square + _TAIL, FLAT_WITHOUT_TALLIES + square + 1):
            raise ValueError(f"stored reference holds {len(numbers)} numbers: written by another version")
        length = FLAT if len(numbers) == FLAT + square + _TAIL else FLAT_WITHOUT_TALLIES
        votes, within, tail = np.split(numbers, (length, length + square))
        scores, residual = (Within(tail[1], int(tail[2])), Within(tail[3], int(tail[4]))) if len(tail) > 1 else _NOTHING
        return cls(Votes.from_flat(votes), within.reshape(SUBSPACE, SUBSPACE), int(tail[0]), scores, residual)


_TAIL = 5
_NOTHING = (Within(), Within())


@dataclass(frozen=True)
class Spread:
    """Covariance (d x d) between devices and the degrees of freedom behind it."""

    covariance: Array
    freedom: int


def pooled_spread(references: Sequence[Reference]) -> Spread:
    """Pool the spread over all cohorts of one embedding. Raises ValueError when there are no degrees of
    freedom.
    """
    freedom = sum(reference.freedom for reference in references)
    if freedom < 1:
        raise ValueError("no cohort has two devices on one reference day, so nothing tells how devices differ")
    total = np.sum([reference.within for reference in references], axis=0)
    return Spread(_floored(total / freedom), freedom)


def gap_covariance(current: Votes, reference: Reference, pooled: Spread) -> Array:
    """Return the covariance (d x d) of `current.mean - reference mean` when nothing but chance moves them.

    The shape is the pooled one; each side brings its own size, so a day on which devices differ more than they
    used to is no false alarm (as in Welch's test).
    """
    d = len(current.mean)
    inverse_bias = pooled.freedom / max(pooled.freedom - d - 1, 1)  # of an inverted estimate, on data it never saw
    now = _size(current.comoments, current.count - 1, pooled) / inverse_bias
    then = _size(reference.within, reference.freedom, pooled)
    return np.asarray(pooled.covariance * (now / current.count + then / reference.votes.count))


def _size(comoments: Array, freedom: int, pooled: Spread) -> float:
    """How wide devices spread, as a multiple of the pooled spread; 1 when nothing tells."""
    if freedom < 1:
        return 1.0
    solved = linalg.solve(pooled.covariance, comoments / freedom, assume_a="pos")
    return max(float(np.trace(solved)) / len(comoments), SMALLEST_SIZE)


def _floored(covariance: Array) -> Array:
    values, vectors = linalg.eigh(covariance)
    return np.asarray((vectors * np.maximum(values, VARIANCE_FLOOR)) @ vectors.T)
