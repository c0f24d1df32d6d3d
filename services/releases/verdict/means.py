"""Means: one number a device, canary against control; bounded shares are bet on as well."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from services.releases.verdict import betting
from services.releases.verdict.alarm import Cell, mean_log_e
from services.releases.verdict.evidence import Side, Stratum
from services.releases.verdict.findings import Finding, Looked, Reading, all_or_nothing, safe_or_unknown
from services.releases.verdict.guardrails import MeanGuardrail, VerdictPolicy
from services.releases.verdict.intervals import Difference, Interval, Sample, difference, mixture_interval, pool

Values = npt.NDArray[np.float64]


def mean_reading(
    mean: MeanGuardrail,
    stratum: Stratum,
    parts: tuple[Stratum, ...],
    policy: VerdictPolicy,
    alpha: float,
    next_share: float,
    first_release: bool,
) -> Looked:
    """One metric of one stratum (`parts`: the strata it is made of), against the control or against its ceiling."""
    margin = mean.ceiling if first_release else mean.margin
    compare = _against_nothing if first_release else _against_control
    found = compare(mean, parts, policy)
    canary, control = stratum.canary.metric(mean.name), stratum.control.metric(mean.name)
    bet = (Cell(mean.name, stratum.name, _bet(canary, control, margin, alpha, first_release)),) if mean.bounded else ()
    if found is None:
        asked = mean.holds or int(control.size) >= policy.minimum_control
        nothing = Finding.UNKNOWN if asked else Finding.UNASKED
        counts = int(canary.size), int(control.size)
        cells = (Cell(mean.name, stratum.name, 0.0), *bet)
        return Reading(mean.name, stratum.name, *counts, None, None, None, margin, nothing), cells
    strict = mixture_interval(found.difference, alpha, policy.tuned_devices)
    wide = mixture_interval(found.difference, policy.promote_alpha, policy.tuned_devices)
    enough = int(np.count_nonzero(canary > 0)) >= mean.minimum_events
    log_e = mean_log_e(found.difference, margin, policy.tuned_devices) if enough else 0.0
    low = strict.lower if enough else min(strict.lower, margin)
    safe = safe_or_unknown(_at_exposure(wide, next_share, first_release) <= margin)
    reading = Reading(
        metric=mean.name,
        stratum=stratum.name,
        canary_devices=found.canary,
        control_devices=found.control,
        estimate=wide.estimate,
        low=strict.lower,
        high=wide.upper,
        margin=margin,
        finding=safe if mean.holds or safe is Finding.SAFE else Finding.UNASKED,
        excess=(low - margin) / max(margin, mean.minimum_sd),
    )
    return reading, (Cell(mean.name, stratum.name, log_e), *bet)


def _bet(canary: Values, control: Values, margin: float, alpha: float, first_release: bool) -> float:
    """Log e-value of a bounded share by betting: exact before a spread can be believed.

    Against a control, both arms' bounds at half of `alpha` each make an all-or-nothing e-value.
    """
    if canary.size == 0 or (control.size == 0 and not first_release):
        return 0.0
    if first_release:
        return betting.log_wealth(canary, margin)
    if betting.log_wealth(canary, margin) < -math.log(alpha / 2):  # not even certain against a control of zero
        return 0.0
    suffered = 1.0 - betting.mean_lower_bound(1.0 - control, alpha / 2)
    return all_or_nothing(betting.mean_lower_bound(canary, alpha / 2) > suffered + margin, alpha)


@dataclass(frozen=True)
class _Found:
    difference: Difference
    canary: int
    control: int


def _against_control(mean: MeanGuardrail, parts: tuple[Stratum, ...], policy: VerdictPolicy) -> _Found | None:
    """Differences of the strata that have enough devices on both sides, weighted by their counts."""
    weighted, canary, control = [], 0, 0
    for part in parts:
        new, old = _sample(part.canary, mean), _sample(part.control, mean)
        if new.count < policy.minimum_canary or old.count < policy.minimum_control:
            continue
        weight = new.count * old.count / (new.count + old.count)
        weighted.append((weight, difference(new, old, mean.minimum_sd)))
        canary, control = canary + new.count, control + old.count
    return _Found(pool(weighted), canary, control) if weighted else None


def _against_nothing(mean: MeanGuardrail, parts: tuple[Stratum, ...], policy: VerdictPolicy) -> _Found | None:
    """A first release has no control: the canary's own mean is held against the ceiling."""
    values = np.concatenate([part.canary.metric(mean.name) for part in parts] or [np.empty(0)])
    sample = Sample.of(values)
    if sample.count < 1:
        return None
    squared = max(sample.variance, mean.minimum_sd**2) / sample.count
    freedom = float(max(sample.count - 1, 1)) if sample.variance > mean.minimum_sd**2 else float("inf")
    return _Found(Difference(sample.mean, squared, sample.count, freedom), sample.count, 0)


def _sample(side: Side, mean: MeanGuardrail) -> Sample:
    return Sample.of(side.metric(mean.name))


def _at_exposure(interval: Interval, next_share: float, first_release: bool) -> float:
    """Upper bound averaged over the fleet; an improvement is not diluted, an absolute level neither."""
    return interval.upper if first_release or interval.upper < 0 else interval.upper * next_share
