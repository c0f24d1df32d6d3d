"""Bounded device values (shares of frames, flags) judged by betting, exact at any number of devices.

Capital starts at 1 and stakes fixed parts c on "the mean is above m": every device with value x in [0, 1] multiplies
it by 1 + c (x / m - 1). Whatever the distribution, the mixture over stakes is a supermartingale while the true mean is
at most m (Waudby-Smith and Ramdas 2024, with fixed instead of adaptive stakes so that the order of devices does not
matter). For flags it is a beta-binomial-like mixture; for shares it uses the whole value.

Invariants: pure; independent of order; the lower bound never exceeds the sample mean; no spread is estimated.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import logsumexp

Floats = npt.NDArray[np.float64]

STAKES = np.array([0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95])
LEAST_MEAN = 1e-9


def log_wealth(values: Floats, mean: float) -> float:
    """Log of the e-value against "the mean is at most `mean`" after devices with `values` in [0, 1]."""
    _check(values)
    if not 0.0 < mean < 1.0:
        raise ValueError(f"a mean of {mean:g} is not inside (0, 1)")
    ordered = np.sort(values)  # the same sum whatever the order of arrival
    capital = np.log1p(STAKES[:, None] * (ordered[None, :] / mean - 1.0)).sum(axis=1)
    return float(logsumexp(capital) - math.log(STAKES.size))


def mean_lower_bound(values: Floats, alpha: float) -> float:
    """The largest mean that `values` refute at level `alpha`, at every look at once; 0 when they refute none."""
    _check(values)
    if values.size == 0 or float(values.max()) == 0.0:
        return 0.0
    ordered, target = np.sort(values), -math.log(alpha)
    middle = float(np.clip(ordered.mean(), 2 * LEAST_MEAN, 1.0 - LEAST_MEAN))
    if log_wealth(ordered, LEAST_MEAN) <= target:
        return 0.0
    return float(brentq(lambda mean: log_wealth(ordered, mean) - target, LEAST_MEAN, middle, xtol=1e-12))


def _check(values: Floats) -> None:
    if values.size and not (float(values.min()) >= 0.0 and float(values.max()) <= 1.0):
        raise ValueError("betting needs values between 0 and 1: scale the metric by its known bounds")
