"""Rare crashes, canary against control, exact at any number of events and looks.

At each look the new devices of both arms form a two-by-two table. Given how many crashed in all, the canary's count
is hypergeometric when both arms crash alike, and Fisher's noncentral hypergeometric when the canary's odds are psi
times the control's, whatever the (unknown) crash rate is. Likelihood ratios of that conditional law, multiplied over
looks and mixed over psi, are a test martingale: no variance is estimated, so no event yet is not certainty.

Invariants: pure; tables of looks, strata and shards add up in any order; wealth against "psi <= margin" has mean at
most 1 whatever the rates are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, logsumexp

from services.releases.verdict.intervals import Interval

Floats = npt.NDArray[np.float64]

LOG_ODDS = np.linspace(-math.log(256.0), math.log(256.0), 257)  # a grid step is 4.4 %
MOST_ODDS = 256.0  # the grid's end
PRIOR_SPREAD = 1.2  # of the log odds ratio: most of the bet lies within a factor of 3
MOST_EVENTS = 20_000


@dataclass(frozen=True)
class CrashTable:
    """New devices of one look (of one stratum): how many there are and how many of them crashed, by arm."""

    canary_crashes: int
    canary_devices: int
    control_crashes: int
    control_devices: int

    def __post_init__(self) -> None:
        for crashes, devices in (
            (self.canary_crashes, self.canary_devices),
            (self.control_crashes, self.control_devices),
        ):
            if not 0 <= crashes <= devices:
                raise ValueError(f"{crashes} crashes of {devices} devices is not a share")
        if self.canary_crashes + self.control_crashes > MOST_EVENTS:
            raise ValueError(f"more than {MOST_EVENTS} crashes a look are not rare: use the mixture sequence of means")


@dataclass(frozen=True)
class CrashEvidence:
    """What all tables so far say about the odds ratio: the log likelihood on the grid `LOG_ODDS`, up to a constant."""

    crashes: int = 0
    log_likelihood: Floats = field(default_factory=lambda: np.zeros(LOG_ODDS.size))

    def add(self, table: CrashTable) -> CrashEvidence:
        """Evidence with one more table; the order of tables does not matter."""
        events = table.canary_crashes + table.control_crashes
        mass = _log_normaliser(table.canary_devices, table.control_devices, events)
        gained = table.canary_crashes * LOG_ODDS - mass
        return CrashEvidence(self.crashes + events, self.log_likelihood + gained)

    def __add__(self, other: CrashEvidence) -> CrashEvidence:
        return CrashEvidence(self.crashes + other.crashes, self.log_likelihood + other.log_likelihood)


def harm_log_wealth(evidence: CrashEvidence, margin: float = 1.0) -> float:
    """Log of the e-value against "the canary's crash odds are at most `margin` times the control's"."""
    return float(log_wealth_above(evidence.log_likelihood, margin))


def log_wealth_above(log_likelihood: Floats, margin: float) -> Floats:
    """The same for many likelihoods at once, shape (..., grid) to (...)."""
    at = _place(margin)
    prior = _log_prior(LOG_ODDS[at + 1 :] - LOG_ODDS[at])
    return np.asarray(logsumexp(prior + log_likelihood[..., at + 1 :], axis=-1) - log_likelihood[..., at])


def odds_interval(evidence: CrashEvidence, alpha: float) -> Interval:
    """Confidence sequence for the odds ratio; an end that the grid cannot bound is 0 or infinity."""
    wealth = logsumexp(_log_prior(LOG_ODDS) + evidence.log_likelihood) - evidence.log_likelihood
    kept = np.flatnonzero(wealth < -math.log(alpha))
    estimate = math.exp(LOG_ODDS[int(np.argmax(evidence.log_likelihood))]) if evidence.crashes else math.nan
    if kept.size == 0:  # narrower than a step of the grid
        best = int(np.argmin(wealth))
        kept = np.array([best])
    low, high = int(kept[0]) - 1, int(kept[-1]) + 1
    lower = math.exp(LOG_ODDS[low]) if low >= 0 else 0.0
    return Interval(estimate, lower, math.exp(LOG_ODDS[high]) if high < LOG_ODDS.size else math.inf)


def _place(margin: float) -> int:
    """The grid point at or above `margin`, which errs on the canary's side."""
    if not margin > 0.0 or math.log(margin) > LOG_ODDS[-2]:
        raise ValueError(f"an odds margin of {margin:g} lies outside (0, {math.exp(LOG_ODDS[-2]):.0f}]")
    return int(np.searchsorted(LOG_ODDS, math.log(margin) - 1e-12))


def _log_prior(distances: Floats) -> Floats:
    bell = -0.5 * (distances / PRIOR_SPREAD) ** 2
    return np.asarray(bell - logsumexp(bell))


@lru_cache(maxsize=4_096)
def _log_normaliser(canary: int, control: int, events: int) -> Floats:
    """Log of the sum over possible canary counts u of C(canary, u) C(control, events - u) psi^u, less its psi = 1."""
    counts = np.arange(max(0, events - control), min(canary, events) + 1, dtype=np.float64)
    weights = _log_choose(canary, counts) + _log_choose(control, events - counts)
    sums = logsumexp(weights[None, :] + LOG_ODDS[:, None] * counts[None, :], axis=1)
    return np.asarray(sums - logsumexp(weights))


def _log_choose(of: int, taken: Floats) -> Floats:
    return np.asarray(gammaln(of + 1.0) - gammaln(taken + 1.0) - gammaln(of - taken + 1.0))
