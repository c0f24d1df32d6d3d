"""Has the mean of a cohort moved? Hotelling's T2 over devices, read as a tail probability.

Frames of one device resemble each other, so the sample is devices: each device-day votes once with its
projected mean. The articles' "3.5 sigma" is no raw distance (in 28 dimensions every healthy frame lies beyond
it); it is the one-sided tail 2.3e-4, and `z` is the normal quantile with the same tail.

Invariant: under equal means the p value is uniform for any dimension and any degrees of freedom, because the
F law already pays for the covariance having been estimated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, stats

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

Z_CEILING = 38.0
"""Largest sigma-equivalent that a double can tell from certainty."""


@dataclass(frozen=True)
class MeanTest:
    """Outcome of one comparison. `t2` is the raw statistic, `p` its tail, `z` in standard deviations."""

    t2: float
    p: float
    z: float


def hotelling_test(
    current: Vector, reference: Vector, covariance: Matrix, freedom: int, devices: int, reference_devices: int
) -> MeanTest:
    """Compare two means of device votes.

    `covariance` (d x d) is the spread between devices, estimated with `freedom` degrees of freedom from
    `reference` data; `devices` and `reference_devices` are the numbers of votes behind each mean.
    Raises ValueError when `freedom` does not exceed d: the covariance cannot be inverted.
    """
    d = len(current)
    if freedom <= d:
        raise ValueError(f"Hotelling needs more than {d} degrees of freedom, got {freedom}: widen the reference window")
    if devices < 1 or reference_devices < 1:
        raise ValueError("Hotelling needs at least one vote on each side")
    gap = current - reference
    weight = 1.0 / (1.0 / devices + 1.0 / reference_devices)
    solved = linalg.solve(covariance, gap, assume_a="pos")
    t2 = float(weight * (gap @ solved))
    return MeanTest(t2=t2, p=_tail(t2, d, freedom), z=_sigma(t2, d, freedom))


def sigma_of(p: float) -> float:
    """Return the one-sided normal quantile with tail `p`, kept within +-38."""
    return float(np.clip(stats.norm.isf(p), -Z_CEILING, Z_CEILING))


def _law(t2: float, d: int, freedom: int) -> tuple[float, int, int]:
    return t2 * (freedom - d + 1) / (freedom * d), d, freedom - d + 1


def _tail(t2: float, d: int, freedom: int) -> float:
    return float(stats.f.sf(*_law(t2, d, freedom)))


def _sigma(t2: float, d: int, freedom: int) -> float:
    return sigma_of(_tail(t2, d, freedom))
