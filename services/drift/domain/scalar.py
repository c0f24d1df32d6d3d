"""Has one number a device moved? Welch's t test between devices of a day and devices of the reference.

Both sides bring their own spread, so a restless day is no false alarm. The spread of the reference is that within
its days: a difference between days never makes the test blind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import special

from services.drift.domain.hotelling import SMALLEST_P
from services.drift.domain.reference import Within
from services.drift.domain.tally import Tally

VARIANCE_FLOOR = 1e-12
"""Variance of numbers that are all equal, so that a test of constants is defined."""


@dataclass(frozen=True)
class ScalarTest:
    """`gap` is the difference of means; `p` is two-sided, `p_rise` the tail against a rise of the number."""

    gap: float
    p: float
    p_rise: float


def welch_test(current: Tally, reference: Tally, within: Within) -> ScalarTest | None:
    """Test whether the mean of `current` is that of `reference`; None with fewer than two devices on either side."""
    if current.count < 2 or reference.count < 2 or within.freedom < 1:
        return None
    now = max(current.squares / (current.count - 1), VARIANCE_FLOOR) / current.count
    then = max(within.variance, VARIANCE_FLOOR) / reference.count
    freedom = (now + then) ** 2 / (now**2 / (current.count - 1) + then**2 / within.freedom)
    gap = current.mean - reference.mean
    t = gap / math.sqrt(now + then)
    p = max(float(2.0 * special.stdtr(freedom, -abs(t))), SMALLEST_P)
    return ScalarTest(gap, p, max(float(special.stdtr(freedom, -t)), SMALLEST_P))
