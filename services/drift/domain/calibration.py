"""The weekly A/A report: what the test really does on this fleet, and what it could see.

Rates: four parts of a cohort-day against its other four, by the same test, spread and evidence rules as every verdict.
Nothing can have changed between parts drawn by chance, so every alarm is false. Splits of one cohort-day resemble each
other; the standard error is that between cohort-days.

Power: the chance that one day is significant at 3.5 sigma for a shift of a given D, even over the 28 directions, from
the fleet's own spread between devices (non-central F). Whether such a shift is also called material is the settings'.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, special

from contracts.statistics.moments import SUBSPACE
from services.drift.domain.reference import Reference, Spread
from services.drift.domain.shards import Shards
from services.drift.domain.verdict import Thresholds, measure

Array = NDArray[np.float64]

NOMINAL = (0.05, 0.01)
RESOLVABLE = 8.0
"""Expected false alarms from which a rate is called known."""

SIZES = (0.25, 0.35, 0.5, 1.0)
DEVICES = (60, 100, 200, 500, 1_000)


@dataclass(frozen=True)
class Rate:
    """How often p fell below `nominal` on `cohort_days` days, and the standard error of that."""

    nominal: float
    rate: float
    standard_error: float
    cohort_days: int

    @property
    def resolvable(self) -> bool:
        """Whether so rare a thing could be counted on so many days."""
        return self.cohort_days * self.nominal >= RESOLVABLE

    @property
    def kept(self) -> bool:
        """Within half and twice the nominal rate, or, where that cannot be told, not surely above."""
        if self.resolvable:
            return 0.5 * self.nominal <= self.rate <= 2.0 * self.nominal
        chance = math.sqrt(2.0 * self.nominal / max(self.cohort_days, 1))
        return self.rate <= 2.0 * self.nominal + 3.0 * chance


@dataclass(frozen=True)
class Calibration:
    """`cohort_days` that were large enough to be halved, `too_small` others, `tests` made, a rate each level."""

    cohort_days: int
    too_small: int
    tests: int
    rates: tuple[Rate, ...]


def calibrate(days: Sequence[Shards], spread: Spread, limits: Thresholds, most_tests: int) -> Calibration:
    """Try the test on every cohort-day against itself; at most about `most_tests` in all, at least one a day."""
    splits = max(1, most_tests // max(len(days), 1))
    tried = [found for found in (_p_values(day, spread, limits, splits) for day in days) if found]
    levels = (*NOMINAL, float(special.ndtr(-limits.z_threshold)))
    return Calibration(
        cohort_days=len(tried),
        too_small=len(days) - len(tried),
        tests=sum(len(found) for found in tried),
        rates=tuple(_rate(tried, level) for level in levels),
    )


def power(size: float, devices: int, spread: Spread, limits: Thresholds) -> float:
    """Return the chance that one day of `devices`, against a reference of twice as many, is significant."""
    d, freedom = SUBSPACE, spread.freedom
    shift = np.full(d, size / math.sqrt(d))
    scale = 1.0 / devices + 0.5 / devices
    away = float(shift @ linalg.solve(spread.covariance, shift, assume_a="pos")) / scale
    tail = float(special.ndtr(-limits.z_threshold)) / 2.0  # the other half pays for the test outside the subspace
    critical = float(special.fdtri(d, freedom - d + 1, 1.0 - tail))
    return float(1.0 - special.ncfdtr(d, freedom - d + 1, away, critical))


def _p_values(day: Shards, spread: Spread, limits: Thresholds, splits: int) -> list[float]:
    verdicts = (
        measure(first, Reference.of_days([second]), spread, limits) for first, second in islice(day.halves(), splits)
    )
    return [verdict.p for verdict in verdicts if verdict.p is not None]


def _rate(tried: Sequence[Sequence[float]], nominal: float) -> Rate:
    if not tried:
        return Rate(nominal, 0.0, 0.0, 0)
    shares = np.array([np.mean(np.array(found) < nominal) for found in tried])
    error = float(shares.std(ddof=1) / math.sqrt(len(shares))) if len(shares) > 1 else 0.0
    return Rate(nominal, float(shares.mean()), error, len(shares))
