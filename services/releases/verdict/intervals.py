"""Intervals that stay valid however often one looks at them.

Two engines, both sequences of confidence intervals (the true value lies in *every* interval of the
sequence with probability >= 1 - alpha):

* `mixture_interval`: the normal-mixture sequence for a difference of device means (asymptotic;
  arXiv 2103.06476, equation 9), widened by Student's t because a stratum may hold a handful of devices;
* `rate_interval`: the beta-binomial mixture for the share of devices that fail (exact at any n), which
  is what judges rare failures, where a variance estimate of nearly zero would fool the first engine.

Invariants: no I/O, no randomness; an interval never narrows below what `minimum_sd` allows, so a sample
without a single event is not mistaken for certainty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, stdtrit


@dataclass(frozen=True)
class Interval:
    """A closed interval with the point estimate inside it."""

    estimate: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Sample:
    """Mean, variance (ddof 1) and count of one value per device."""

    count: int
    mean: float
    variance: float

    @staticmethod
    def of(values: np.ndarray) -> Sample:
        """Summary of `values` (float, any order; NaN must be gone already)."""
        count = int(values.size)
        if count == 0:
            return Sample(0, math.nan, math.nan)
        ordered = np.sort(values.astype(np.float64))  # the same sum whatever the order of arrival
        variance = float(ordered.var(ddof=1)) if count > 1 else 0.0
        return Sample(count, float(ordered.mean()), variance)


@dataclass(frozen=True)
class Difference:
    """Canary minus control: estimate, squared standard error, devices, Welch degrees of freedom."""

    estimate: float
    squared_error: float
    count: int
    freedom: float


def tuning(alpha: float, tuned_count: float) -> float:
    """rho squared for which the sequence is tightest near `tuned_count` devices."""
    log_alpha = -2.0 * math.log(alpha)
    return (log_alpha + math.log(1.0 + log_alpha)) / tuned_count


def mixture_multiplier(count: float, alpha: float, rho_squared: float) -> float:
    """How many standard errors the interval reaches to each side at `count` devices."""
    scaled = count * rho_squared
    return math.sqrt((scaled + 1.0) / scaled * math.log((scaled + 1.0) / alpha**2))


def difference(canary: Sample, control: Sample, minimum_sd: float) -> Difference:
    """Difference of two independent samples, neither of them allowed less spread than `minimum_sd`."""
    floor = minimum_sd**2
    parts = [(max(s.variance, floor) / s.count, s.count) for s in (canary, control)]
    squared = sum(part for part, _ in parts)
    freedom = squared**2 / sum(part**2 / max(count - 1, 1) for part, count in parts)
    return Difference(canary.mean - control.mean, squared, canary.count + control.count, freedom)


def pool(parts: list[tuple[float, Difference]]) -> Difference:
    """Weighted mean of stratum differences (`weight`, difference); weights come from counts only."""
    total = sum(weight for weight, _ in parts)
    shares = [(weight / total, part) for weight, part in parts]
    squared = sum(share**2 * part.squared_error for share, part in shares)
    spread = sum((share**2 * part.squared_error) ** 2 / part.freedom for share, part in shares)
    return Difference(
        sum(share * part.estimate for share, part in shares),
        squared,
        sum(part.count for _, part in parts),
        squared**2 / spread if spread > 0 else 1.0,
    )


def mixture_interval(part: Difference, alpha: float, tuned_count: float) -> Interval:
    """Normal-mixture confidence sequence for a difference, evaluated at its present size."""
    multiplier = mixture_multiplier(part.count, alpha, tuning(alpha, tuned_count))
    reach = _student(multiplier, part.freedom) * math.sqrt(part.squared_error)
    return Interval(part.estimate, part.estimate - reach, part.estimate + reach)


def gated(interval: Interval, events: int, minimum_events: int) -> Interval:
    """The interval once `minimum_events` canary devices showed an event; before that it bounds nothing.

    An estimated spread is not believed while almost nothing happened: the asymptotic sequence would call a control
    with its first crashes certainly worse than a canary with none yet.
    """
    if events >= minimum_events:
        return interval
    return Interval(interval.estimate, -math.inf, math.inf)


def always_valid_p(z: float, count: float, rho_squared: float) -> float:
    """Always-valid p value of a standardised difference `z` at `count` devices."""
    scaled = count * rho_squared
    exponent = -scaled * z * z / (2.0 * (scaled + 1.0))
    return min(1.0, math.sqrt(scaled + 1.0) * math.exp(exponent))


def _student(multiplier: float, freedom: float) -> float:
    """The t quantile with the normal tail of `multiplier`: small strata pay for their estimated spread."""
    tail = float(ndtr(-multiplier))
    return max(multiplier, -float(stdtrit(max(freedom, 1.0), tail)))


def rate_log_wealth(failures: int, devices: int, rate: float, prior: tuple[float, float]) -> float:
    """Log of the beta-binomial mixture martingale that bets against the failure rate `rate`."""
    fixed = failures * math.log(rate) if failures else 0.0
    rest = devices - failures
    return _log_mixture(failures, rest, prior) - fixed - (rest * math.log1p(-rate) if rest else 0.0)


def rate_interval(failures: int, devices: int, alpha: float, prior: tuple[float, float]) -> Interval:
    """Beta-binomial confidence sequence for the share of failing devices; [0, 1] without devices."""
    if not 0 <= failures <= devices:
        raise ValueError(f"{failures} failures of {devices} devices is not a share")
    if devices == 0:
        return Interval(math.nan, 0.0, 1.0)
    estimate, edge, rest = failures / devices, 1e-9, devices - failures
    reached = _log_mixture(failures, rest, prior) + math.log(alpha)

    def excess(rate: float) -> float:
        return reached - failures * math.log(rate) - rest * math.log1p(-rate)

    middle = min(max(estimate, edge), 1.0 - edge)
    below = failures > 0 and excess(edge) > 0 > excess(middle)
    above = rest > 0 and excess(1.0 - edge) > 0 > excess(middle)
    lower = float(brentq(excess, edge, middle)) if below else 0.0
    upper = float(brentq(excess, middle, 1.0 - edge)) if above else 1.0
    return Interval(estimate, lower, upper)


def _log_mixture(failures: int, rest: int, prior: tuple[float, float]) -> float:
    """Log of B(a + failures, b + rest) / B(a, b)."""
    a, b = prior
    return _log_beta(a + failures, b + rest) - _log_beta(a, b)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
