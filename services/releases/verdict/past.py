"""Crashes at full exposure, where no control is left: the same devices before and after they got the new bundle.

The devices that the last stage exposes were its control until then. Their first crashes as control, `before`, bound
what would be expected of them `after`, and a test supermartingale bets that more came.

Nobody knows how crashes spread over a device's time: devices that tend to crash may do so early, or any device at any
time. So the expectation grows by devices or by frames, whichever grew more. Counting devices is right while `after` is
no longer than `before`, however crashes fall; counting frames is right beyond that where crashes do not become more
frequent with a device's time. The truth is at most the larger one. Doubt counts devices alone: else it would go away by
waiting, once the devices that crash early have crashed.

Invariants: pure; `exceeds` is exact for rare crashes over all looks together (a bound of the past at half of alpha, a
bet at the other half), `doubtful` at each; who crashed before is not in `after`; without a past nothing is said.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, gammaincinv

from services.releases.verdict.crashes import LOG_ODDS, log_wealth_above

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Observed:
    """Devices that were heard, their frames, and how many of them crashed."""

    crashes: int
    devices: int
    frames: float

    def __add__(self, other: Observed) -> Observed:
        return Observed(self.crashes + other.crashes, self.devices + other.devices, self.frames + other.frames)


@dataclass(frozen=True)
class CrashPast:
    """Devices of a class as control, and those of them that now run the new bundle and had not crashed before."""

    before: Observed
    after: Observed
    least_growth: float = 0.0
    least_devices_growth: float = 0.0

    @property
    def comparable(self) -> bool:
        """Whether there is a past at all."""
        return self.before.devices > 0 and self.before.frames > 0

    @property
    def growth(self) -> float:
        """How many times the past's crashes would be expected if nothing had changed."""
        return max(self.devices_growth, self.after.frames / self.before.frames, self.least_growth)

    @property
    def devices_growth(self) -> float:
        """The same by devices alone."""
        return max(self.after.devices / self.before.devices, self.least_devices_growth)

    @property
    def ratio(self) -> float:
        """Crashes after, for each that was expected; infinite where none was."""
        wanted = self.before.crashes * self.growth
        return self.after.crashes / wanted if wanted > 0 else (math.inf if self.after.crashes else math.nan)


def pooled(pasts: Iterable[CrashPast]) -> CrashPast | None:
    """All classes that have a past together; the class that grew most speaks for all, which errs on the safe side."""
    known = [one for one in pasts if one.comparable]
    if not known:
        return None
    none = Observed(0, 0, 0.0)
    before, after = sum((one.before for one in known), none), sum((one.after for one in known), none)
    return CrashPast(before, after, max(one.growth for one in known), max(one.devices_growth for one in known))


def exceeds(past: CrashPast, margin: float, alpha: float) -> bool:
    """Whether more than `margin` times the past's crashes came, for certain at level `alpha` over all looks."""
    return bool(log_wealth_above(_log_likelihood(past, alpha), margin) >= math.log(2.0 / alpha))


def doubtful(past: CrashPast, margin: float, alpha: float) -> bool:
    """Whether so many crashes came at this look that `margin` times the past's is refuted at level `alpha`."""
    crashed, expected = past.after.crashes, margin * past.devices_growth
    if crashed == 0:
        return False
    share = expected / (1.0 + expected)
    return bool(betainc(crashed, past.before.crashes + 1, share) <= alpha)  # P(binomial >= crashed)


def ratio_lower_bound(past: CrashPast, alpha: float) -> float:
    """The largest ratio (of the grid `LOG_ODDS`) that `past` refutes at level `alpha`; 0 when it refutes none."""
    known, bar = _log_likelihood(past, alpha), math.log(2.0 / alpha)
    margins = np.exp(LOG_ODDS[:-2])
    kept = bisect_left(margins, True, key=lambda margin: float(log_wealth_above(known, float(margin))) < bar)
    return float(margins[kept - 1]) if kept else 0.0


def _log_likelihood(past: CrashPast, alpha: float) -> Floats:
    """Of each ratio on the grid, up to a constant, with the past's mean at its upper bound at half of `alpha`."""
    most = float(gammaincinv(past.before.crashes + 1.0, 1.0 - alpha / 2.0))  # exact for a Poisson count
    return np.asarray(past.after.crashes * LOG_ODDS - most * past.growth * np.exp(LOG_ODDS))
