"""Which class of devices is harmed? Evidence by stratum and metric, with the share of false alarms controlled.

Each cell gives an e-value against "harm is at most the margin": its mean is at most 1 while that is true, at any time
one stops. The e-BH rule (Wang and Ramdas 2022) then names cells so that on average at most alpha of those named
are false, whatever the dependence between cells. Many harmed cells help each other, which Bonferroni does not allow.

Invariants: pure; the order of cells does not matter; a cell without evidence has e-value 1 and is never named alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import betainc, betaln, log_ndtr, ndtri, stdtr

from services.releases.verdict.intervals import Difference, tuning

CERTAIN = 700.0  # largest log e-value told apart


@dataclass(frozen=True)
class Cell:
    """One metric in one stratum with the log of its e-value."""

    metric: str
    stratum: str
    log_e: float


@dataclass(frozen=True)
class Alarm:
    """Cells that are named, worst first; `worst` is the worst of all cells, named or not."""

    named: tuple[Cell, ...]
    worst: Cell | None


def worst_strata(cells: Sequence[Cell], alpha: float) -> Alarm:
    """Apply e-BH at level `alpha` to every cell that was looked at."""
    ordered = sorted(cells, key=lambda cell: (-cell.log_e, cell.stratum, cell.metric))
    bar = math.log(len(ordered) / alpha) if ordered else math.inf
    ranks = [rank for rank, cell in enumerate(ordered, start=1) if cell.log_e >= bar - math.log(rank)]
    return Alarm(tuple(ordered[: max(ranks, default=0)]), ordered[0] if ordered else None)


def mean_log_e(part: Difference, margin: float, tuned_count: float, alpha: float = 0.05) -> float:
    """Log e-value against "the difference is at most `margin`": one-sided normal mixture, asymptotic.

    A small stratum pays for its estimated spread: z is the normal quantile of Student's tail.
    """
    if part.count == 0 or not part.squared_error > 0:
        return 0.0
    z = _normal((part.estimate - margin) / math.sqrt(part.squared_error), part.freedom)
    scaled = part.count * tuning(alpha, tuned_count)
    root = math.sqrt(scaled / (scaled + 1.0))
    found = math.log(2.0) - 0.5 * math.log1p(scaled) + 0.5 * (z * root) ** 2 + float(log_ndtr(z * root))
    return min(found, CERTAIN)


def rate_log_e(failures: int, devices: int, margin: float, prior: tuple[float, float]) -> float:
    """Log e-value against "the failure rate is at most `margin`": beta mixture above the margin, exact."""
    if not 0 <= failures <= devices or not 0.0 < margin < 1.0:
        raise ValueError(f"{failures} failures of {devices} devices against a margin of {margin:g} make no rate")
    a, b = prior
    rest = devices - failures
    before, after = betainc(b, a, 1.0 - margin), betainc(b + rest, a + failures, 1.0 - margin)
    if after <= 0.0:
        return -CERTAIN
    mixture = betaln(a + failures, b + rest) + math.log(after) - betaln(a, b) - math.log(before)
    return min(float(mixture) - failures * math.log(margin) - rest * math.log1p(-margin), CERTAIN)


def _normal(t: float, freedom: float) -> float:
    """The normal quantile with Student's tail of `t`, kept finite."""
    if t <= 0.0 or math.isinf(freedom):
        return t
    tail = float(stdtr(max(freedom, 1.0), -t))
    return min(t, -float(ndtri(max(tail, 1e-300))))
