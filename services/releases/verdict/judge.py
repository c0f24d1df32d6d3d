"""The three-way verdict: roll back, promote, or go on collecting.

Harm anywhere (any metric, any stratum) condemns the whole rollout, so the error rate alpha is split over
all readings. Promotion needs every pooled metric to be safe at once, so it is not split, and arms that are split
as planned (an always-valid sample-ratio check at .001 where the plan is known). A promotion bound
is weighed by the share of the fleet that the next stage exposes: a wide interval may open a 25 % stage but
not the last one. Missing data is never a pass, and never a condemnation either.

Invariants: pure; the order of devices and batches does not matter; the same evidence gives the same verdict.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from services.releases.verdict.evidence import POOLED, Evidence, Side, Stratum
from services.releases.verdict.guardrails import MeanGuardrail, RateGuardrail, VerdictPolicy
from services.releases.verdict.intervals import (
    Difference,
    Interval,
    Sample,
    difference,
    mixture_interval,
    pool,
    rate_interval,
)
from services.releases.verdict.sample_ratio import sample_ratio


class Decision(StrEnum):
    """What the evidence allows. `INCONCLUSIVE` is given by the rollout's deadline, not by the evidence."""

    ROLLBACK = "rollback"
    PROMOTE = "promote"
    CONTINUE = "continue"
    INCONCLUSIVE = "inconclusive"


class Finding(StrEnum):
    """What one reading says."""

    HARM = "harm"
    SAFE = "safe"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Reading:
    """One metric in one stratum. `low` is judged at the split alpha, `high` at the promotion alpha."""

    metric: str
    stratum: str
    canary_devices: int
    control_devices: int
    estimate: float | None
    low: float | None
    high: float | None
    margin: float
    finding: Finding
    excess: float = 0.0


@dataclass(frozen=True)
class Judgement:
    """A decision with everything it rests on."""

    decision: Decision
    reasons: tuple[str, ...]
    readings: tuple[Reading, ...]
    worst: Reading | None
    alpha_each: float
    policy: VerdictPolicy


def judge(evidence: Evidence, policy: VerdictPolicy, next_share: float, min_devices: int) -> Judgement:
    """Judge the evidence at one look.

    `next_share` in (0, 1]: fleet share that a promotion would expose. `min_devices`: canary devices that
    must have reported health before a promotion.
    """
    strata = (*evidence.strata, evidence.pooled) if len(evidence.strata) > 1 else (evidence.pooled,)
    alpha_each = policy.alpha / (policy.metric_count() * len(strata))
    readings = tuple(_readings(evidence, strata, policy, alpha_each, next_share))
    harmful = [reading for reading in readings if reading.finding is Finding.HARM]
    if harmful:
        worst = max(harmful, key=lambda reading: (reading.excess, reading.stratum != POOLED, reading.metric))
        reasons = tuple(_harm(reading) for reading in harmful)
        return Judgement(Decision.ROLLBACK, reasons, readings, worst, alpha_each, policy)
    missing = (*_broken_split(evidence), *_missing_devices(evidence, policy, min_devices), *_unsafe(readings))
    decision = Decision.CONTINUE if missing else Decision.PROMOTE
    return Judgement(decision, missing, readings, None, alpha_each, policy)


def clean_canary(policy: VerdictPolicy, next_share: float, fleet_devices: int) -> int:
    """The fewest devices that open an exposure of `next_share` when none of them fails any rate guardrail."""
    few = policy.tolerated_devices / max(fleet_devices, 1)
    tolerated = min(max(rate.tolerated, few) for rate in policy.rates)

    def opens(devices: int) -> bool:
        return rate_interval(0, devices, policy.promote_alpha, policy.rate_prior).upper * next_share <= tolerated

    return bisect_left(range(1, max(fleet_devices, 1)), True, key=opens) + 1


def _readings(
    evidence: Evidence, strata: tuple[Stratum, ...], policy: VerdictPolicy, alpha: float, next_share: float
) -> list[Reading]:
    few = policy.tolerated_devices / max(evidence.fleet_devices, 1)
    found = [_rate(rate, stratum, policy, alpha, next_share, few) for rate in policy.rates for stratum in strata]
    for mean in policy.means:
        for stratum in strata:
            parts = evidence.strata if stratum.name == POOLED else (stratum,)
            found.append(_mean(mean, stratum, parts, policy, alpha, next_share, evidence.first_release))
    return found


def _rate(
    rate: RateGuardrail,
    stratum: Stratum,
    policy: VerdictPolicy,
    alpha: float,
    next_share: float,
    few: float,
) -> Reading:
    failed, at_risk = stratum.failures(rate.name)
    margin, control = rate.margin, 0
    if rate.against_control and stratum.control.devices:
        control, alpha = stratum.control.devices, alpha / 2
        suffered = rate_interval(stratum.control.degraded, control, alpha, policy.rate_prior)
        margin = max(margin, suffered.upper)
    low = rate_interval(failed, at_risk, alpha, policy.rate_prior).lower
    wide = rate_interval(failed, at_risk, policy.promote_alpha, policy.rate_prior)
    tolerated = max(rate.tolerated, few)
    finding = _finding(low, margin, wide.upper * next_share, tolerated, at_risk > 0)
    return Reading(
        metric=rate.name,
        stratum=stratum.name,
        canary_devices=at_risk,
        control_devices=control,
        estimate=wide.estimate if at_risk else None,
        low=low,
        high=wide.upper,
        margin=margin,
        finding=finding,
        excess=(low - margin) / margin,
    )


def _mean(
    mean: MeanGuardrail,
    stratum: Stratum,
    parts: tuple[Stratum, ...],
    policy: VerdictPolicy,
    alpha: float,
    next_share: float,
    first_release: bool,
) -> Reading:
    margin = mean.ceiling if first_release else mean.margin
    compare = _against_nothing if first_release else _against_control
    found = compare(mean, parts, policy)
    values = stratum.canary.metric(mean.name)
    if found is None:
        counts = int(values.size), int(stratum.control.metric(mean.name).size)
        return Reading(mean.name, stratum.name, *counts, None, None, None, margin, Finding.UNKNOWN)
    strict = mixture_interval(found.difference, alpha, policy.tuned_devices)
    wide = mixture_interval(found.difference, policy.promote_alpha, policy.tuned_devices)
    enough = int(np.count_nonzero(values > 0)) >= mean.minimum_events
    low = strict.lower if enough else min(strict.lower, margin)
    promoted = _at_exposure(wide, next_share, first_release)
    return Reading(
        metric=mean.name,
        stratum=stratum.name,
        canary_devices=found.canary,
        control_devices=found.control,
        estimate=wide.estimate,
        low=strict.lower,
        high=wide.upper,
        margin=margin,
        finding=_finding(low, margin, promoted, margin, True),
        excess=(low - margin) / max(margin, mean.minimum_sd),
    )


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


def _finding(low: float, margin: float, high: float, tolerated: float, heard: bool) -> Finding:
    if low > margin:
        return Finding.HARM
    return Finding.SAFE if heard and high <= tolerated else Finding.UNKNOWN


def _broken_split(evidence: Evidence) -> list[str]:
    """Arms of another size than planned hold a promotion: no comparison between them can be trusted."""
    if evidence.exposed_share is None or evidence.targeted is None:
        return []
    exposed = min(sum(evidence.targeted.values()), evidence.fleet_devices)
    split = sample_ratio(exposed, evidence.fleet_devices - exposed, evidence.exposed_share)
    return [split.words()] if split.mismatch() else []


def _missing_devices(evidence: Evidence, policy: VerdictPolicy, min_devices: int) -> list[str]:
    pooled, missing = evidence.pooled, []
    if evidence.targeted is not None:
        min_devices = max(1, min(min_devices, sum(evidence.targeted.values())))
    if pooled.canary.devices < min_devices:
        missing.append(f"{pooled.canary.devices} of {min_devices} devices have reported health")
    if pooled.canary.devices < policy.heard_share * pooled.started:
        missing.append(f"{pooled.canary.devices} of {pooled.started} started devices have been heard")
    for stratum in evidence.strata:
        each = min(policy.minimum_canary, min_devices)
        if evidence.targeted is not None:
            each = min(each, evidence.targeted.get(stratum.name, 0))
        matters = evidence.fleet_shares.get(stratum.name, 0.0) >= policy.stratum_share
        if matters and stratum.canary.devices < each:
            missing.append(f"{stratum.name}: {stratum.canary.devices} of {each} devices have reported health")
    return missing


def _unsafe(readings: tuple[Reading, ...]) -> list[str]:
    return [
        f"{reading.metric} is not yet known to be safe"
        for reading in readings
        if reading.stratum == POOLED and reading.finding is not Finding.SAFE
    ]


def _harm(reading: Reading) -> str:
    return f"{reading.metric} in {reading.stratum}: at least {reading.low:.4g}, allowed {reading.margin:.4g}"
