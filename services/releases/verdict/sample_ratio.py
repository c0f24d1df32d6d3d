"""Are the arms as large as they should be? If not, no comparison between them can be trusted.

Devices fall to the canary by a hash, each with the same known chance. A beta mixture around that chance bets against
the counts seen (the two-arm case of Lindon and Malek 2022); its wealth may be watched at every look. A mismatch points
to a broken split, devices lost in one arm only, or a device that lies about its class: a person must look.

Invariants: pure; exact at any size; counts only, so order and shards do not matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import betaln, xlog1py, xlogy

WEIGHT = 100.0  # devices' worth of trust in the planned share: smaller finds gross mismatches earlier
ALPHA = 0.001


@dataclass(frozen=True)
class SampleRatio:
    """Counts by arm against the planned canary share, and the always-valid p value of their fitting together."""

    canary: int
    control: int
    share: float
    p_value: float

    def mismatch(self, alpha: float = ALPHA) -> bool:
        """Whether the arms are certainly not split as planned."""
        return self.p_value <= alpha

    def words(self) -> str:
        """For an operator."""
        total = self.canary + self.control
        return f"sample ratio: {self.canary} of {total} devices are canaries, {100 * self.share:.3g} % were planned"


def sample_ratio(canary: int, control: int, share: float, weight: float = WEIGHT) -> SampleRatio:
    """Hold counts against a planned `share`; a share of 0 or 1 allows no device in the other arm."""
    if canary < 0 or control < 0 or not 0.0 <= share <= 1.0:
        raise ValueError(
            f"{canary} and {control} devices at a share of {share:g}: counts and shares are never negative"
        )
    return SampleRatio(canary, control, share, math.exp(-max(log_wealth(canary, control, share, weight), 0.0)))


def log_wealth(canary: int, control: int, share: float, weight: float = WEIGHT) -> float:
    """Log of the test martingale against the planned split."""
    if share in (0.0, 1.0):
        return math.inf if (canary if share == 0.0 else control) else 0.0
    a, b = weight * share, weight * (1.0 - share)
    mixture = betaln(a + canary, b + control) - betaln(a, b)
    return float(mixture - xlogy(canary, share) - xlog1py(control, -share))
