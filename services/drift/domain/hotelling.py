"""Has the mean of a cohort moved? Hotelling's T2 over devices, read as a tail probability.

Frames of one device resemble each other, so the sample is devices: each device-day votes once with its
projected mean. The articles' "3.5 sigma" is no raw distance (in 28 dimensions every healthy frame lies beyond
it); it is the one-sided tail 2.3e-4, and `z` is the normal quantile with the same tail.

Invariant: under equal means the p value is uniform for any dimension and any degrees of freedom, because the
F law already pays for the covariance having been estimated.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, special

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

Z_CEILING = 38.0
"""Largest sigma-equivalent that a double can tell from certainty."""

SMALLEST_P = sys.float_info.min
"""A tail is never reported as zero: no finite evidence excludes chance."""


@dataclass(frozen=True)
class MeanTest:
    """Outcome of one comparison. `t2` is the raw statistic, `p` its tail, `z` in standard deviations."""

    t2: float
    p: float
    z: float


def hotelling_test(gap: Vector, covariance: Matrix, freedom: int) -> MeanTest:
    """Test whether a difference of two means (`gap`, length d) is zero.

    `covariance` (d x d) is that of the gap, estimated with `freedom` degrees of freedom. Raises ValueError when
    `freedom` does not exceed d: the covariance cannot be inverted.
    """
    d = len(gap)
    if freedom <= d:
        raise ValueError(f"Hotelling needs over {d} degrees of freedom, got {freedom}: widen the reference window")
    t2 = float(gap @ linalg.solve(covariance, gap, assume_a="pos"))
    p = max(float(special.fdtrc(d, freedom - d + 1, t2 * (freedom - d + 1) / (freedom * d))), SMALLEST_P)
    return MeanTest(t2=t2, p=p, z=sigma_of(p))


def sigma_of(p: float) -> float:
    """Return the one-sided normal quantile with tail `p`, kept within +-38."""
    return float(np.clip(-special.ndtri(p), -Z_CEILING, Z_CEILING))
