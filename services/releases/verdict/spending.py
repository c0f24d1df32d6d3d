"""How much of the false-alarm budget may be used by the time a share of the evidence is in.

A spending function maps the information time t in [0, 1] to the share of alpha spent up to t: it never falls, is 0
at 0 and alpha at 1. All are two-sided in total; the O'Brien-Fleming form is spent *per side* at alpha / 2 (the
convention of the published tables), not once at alpha over both sides.

Invariants: pure; `spend(1) == alpha`; times beyond 1 spend no more than alpha.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import ndtr, ndtri

Spending = Callable[[float, float], float]


def obrien_fleming(time: float, alpha: float) -> float:
    """Almost nothing early: both sides of 2 - 2 Phi(z(alpha / 4) / sqrt t)."""
    reached = _clip(time)
    if reached == 0.0:
        return 0.0
    return float(4.0 * ndtr(ndtri(alpha / 4.0) / math.sqrt(reached)))


def pocock(time: float, alpha: float) -> float:
    """Nearly even: alpha ln(1 + (e - 1) t)."""
    return alpha * math.log1p((math.e - 1.0) * _clip(time))


def linear(time: float, alpha: float) -> float:
    """Even: alpha t. The choice for resampled paths, which cannot resolve the first looks of O'Brien-Fleming."""
    return alpha * _clip(time)


def _clip(time: float) -> float:
    if math.isnan(time):
        raise ValueError("information time is not a number: pass the share of the planned evidence that is in")
    return min(max(time, 0.0), 1.0)
