"""Has what lies outside the 28 directions changed? The blind spot of every test in a subspace.

Each device gives one number, the logarithm of its energy outside (`services.drift.domain.reading`); the size of a
change is R = sqrt(|ratio of energies - 1|). It reads like D: a shift of every outside direction by R of its own root
mean square changes the energy by the factor 1 + R^2. R = 0.35 is an energy 12 % up or down, R = 1 a doubled one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from services.drift.domain.reference import Reference
from services.drift.domain.scalar import welch_test
from services.drift.domain.votes import Votes

LARGEST_LOG = 50.0
"""Logarithm of a ratio beyond which it is called this large."""


@dataclass(frozen=True)
class ResidualTest:
    """`p` of the two-sided test and the size `r` of the change, signed: negative when energy fell."""

    p: float
    r: float


def residual_test(votes: Votes, reference: Reference) -> ResidualTest | None:
    """Compare energies outside the subspace; None when either side does not carry them."""
    test = welch_test(votes.residual, reference.votes.residual, reference.residual)
    if test is None:
        return None
    change = math.expm1(min(max(test.gap, -LARGEST_LOG), LARGEST_LOG))
    return ResidualTest(test.p, math.copysign(math.sqrt(abs(change)), change))
