"""The three-way verdict: roll back, promote, or go on collecting.

Harm anywhere (any metric, any stratum) condemns the whole rollout. Each metric in each stratum gives an e-value and
the e-BH rule names harmed cells at level alpha over all of them: with no harm anywhere, the chance of naming any is at
most alpha, and several harmed cells help each other. Bounds are shown at the level that one cell alone would need.
Crashes are bet on by conditional odds, shares of frames by the mixture sequence and by betting, tails by bootstrap
paths with an alpha of their own.

Promotion needs every pooled metric to be safe at once, so it is not split; no cell that alone would condemn; and arms
that are split as planned (an always-valid sample-ratio check at .001 where the plan is known). A promotion bound is
weighed by the share of the fleet that the next stage exposes: a wide interval may open a 25 % stage but not the last
one. Missing data is never a pass, and never a condemnation either.

Invariants: pure; the order of devices and batches does not matter; the same evidence gives the same verdict.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from services.releases.verdict import betting
from services.releases.verdict.alarm import CERTAIN, Cell, mean_log_e, rate_log_e, worst_strata
from services.releases.verdict.crashes import MOST_ODDS, CrashEvidence, harm_log_wealth, odds_interval
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
from services.releases.verdict.memory import Memory
from services.releases.verdict.sample_ratio import sample_ratio

Values = npt.NDArray[np.float64]
NOTHING_YET = Memory()


class Decision(StrEnum):
    """What the evidence allows. `INCONCLUSIVE` is given by the rollout's deadline, not by the evidence."""

    ROLLBACK = "rollback"
    PROMOTE = "promote"
    CONTINUE = "continue"
    INCONCLUSIVE = "inconclusive"


class Finding(StrEnum):
    """What one reading says. `UNASKED` is watched for harm, but no promotion waits for it."""

    HARM = "harm"
    SAFE = "safe"
    UNKNOWN = "unknown"
    UNASKED = "watched"


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
    """A decision with everything it rests on; `alpha_spent` is what the tails have used of theirs so far."""

    decision: Decision
    reasons: tuple[str, ...]
    readings: tuple[Reading, ...]
    worst: Reading | None
    alpha_each: float
    policy: VerdictPolicy
    alpha_spent: float = 0.0


def judge(
    evidence: Evidence,
    policy: VerdictPolicy,
    next_share: float,
    min_devices: int,
    memory: Memory = NOTHING_YET,
) -> Judgement:
    """Judge the evidence at one look.

    `next_share` in (0, 1]: fleet share that a promotion would expose. `min_devices`: canary devices that
    must have reported health before a promotion. `memory` is what `watch` made of this look.
    """
    strata = (*evidence.strata, evidence.pooled) if len(evidence.strata) > 1 else (evidence.pooled,)
    alpha_each = policy.alarm_alpha / (policy.cell_count() * len(strata))
    looked = _readings(evidence, strata, policy, alpha_each, next_share, memory)
    alarm = worst_strata([cell for _, of_reading in looked for cell in of_reading], policy.alarm_alpha)
    named = {(cell.metric, cell.stratum) for cell in alarm.named}
    readings = tuple(
        replace(reading, finding=Finding.HARM) if (reading.metric, reading.stratum) in named else reading
        for reading in (*(reading for reading, _ in looked), *_tails(policy, memory))
    )
    spent = memory.spent()
    harmful = [reading for reading in readings if reading.finding is Finding.HARM]
    if harmful:
        worst = max(harmful, key=lambda reading: (reading.excess, reading.stratum != POOLED, reading.metric))
        reasons = tuple(_harm(reading) for reading in (worst, *(one for one in harmful if one is not worst)))
        return Judgement(Decision.ROLLBACK, reasons, readings, worst, alpha_each, policy, spent)
    cells = [cell for _, of_reading in looked for cell in of_reading]
    missing = (
        *_broken_split(evidence),
        *_missing_devices(evidence, policy, min_devices),
        *_unsafe(readings),
        *_doubtful(cells, policy),
    )
    decision = Decision.CONTINUE if missing else Decision.PROMOTE
    return Judgement(decision, missing, readings, None, alpha_each, policy, spent)


def clean_canary(policy: VerdictPolicy, next_share: float, fleet_devices: int) -> int:
    """The fewest devices that open an exposure of `next_share` when none of them fails any rate guardrail."""
    few = policy.tolerated_devices / max(fleet_devices, 1)
    bounds = (*(rate.tolerated for rate in policy.rates), policy.crashes.tolerated)
    tolerated = min(max(bound, few) for bound in bounds)

    def opens(devices: int) -> bool:
        return rate_interval(0, devices, policy.promote_alpha, policy.rate_prior).upper * next_share <= tolerated

    return bisect_left(range(1, max(fleet_devices, 1)), True, key=opens) + 1


def _readings(
    evidence: Evidence,
    strata: tuple[Stratum, ...],
    policy: VerdictPolicy,
    alpha: float,
    next_share: float,
    memory: Memory,
) -> list[tuple[Reading, tuple[Cell, ...]]]:
    """Every metric in every stratum, with its cells for the alarm."""
    few = policy.tolerated_devices / max(evidence.fleet_devices, 1)
    found = [_rate(rate, stratum, policy, alpha, next_share, few) for rate in policy.rates for stratum in strata]
    found += [_crashes(evidence, stratum, policy, alpha, next_share, few, memory) for stratum in strata]
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
) -> tuple[Reading, tuple[Cell, ...]]:
    failed, at_risk = stratum.failures(rate.name)
    margin, control, low_alpha = rate.margin, 0, alpha
    against = rate.against_control and stratum.control.devices > 0
    if against:
        control, low_alpha = stratum.control.devices, alpha / 2
        suffered = rate_interval(stratum.control.degraded, control, low_alpha, policy.rate_prior)
        margin = max(margin, suffered.upper)
    low = rate_interval(failed, at_risk, low_alpha, policy.rate_prior).lower
    wide = rate_interval(failed, at_risk, policy.promote_alpha, policy.rate_prior)
    reading = Reading(
        metric=rate.name,
        stratum=stratum.name,
        canary_devices=at_risk,
        control_devices=control,
        estimate=wide.estimate if at_risk else None,
        low=low,
        high=wide.upper,
        margin=margin,
        finding=_safe(at_risk > 0 and wide.upper * next_share <= max(rate.tolerated, few)),
        excess=(low - margin) / margin,
    )
    log_e = _all_or_nothing(low > margin, alpha) if against else rate_log_e(failed, at_risk, margin, policy.rate_prior)
    return reading, (Cell(rate.name, stratum.name, log_e),)


def _crashes(
    evidence: Evidence,
    stratum: Stratum,
    policy: VerdictPolicy,
    alpha: float,
    next_share: float,
    few: float,
    memory: Memory,
) -> tuple[Reading, tuple[Cell, ...]]:
    """Odds of a crash against the control's (as an interval up to `MOST_ODDS`); a first release has a ceiling."""
    guard = policy.crashes
    crashed, at_risk = stratum.failures(guard.name)
    wide = rate_interval(crashed, at_risk, policy.promote_alpha, policy.rate_prior)
    safe = _safe(at_risk > 0 and wide.upper * next_share <= max(guard.tolerated, few))
    if evidence.first_release:
        log_e = rate_log_e(crashed, at_risk, guard.ceiling, policy.rate_prior)
        found, margin = rate_interval(crashed, at_risk, alpha, policy.rate_prior), guard.ceiling
    else:
        known = memory.pooled_crashes() if stratum.name == POOLED else memory.crashes.get(stratum.name, CrashEvidence())
        log_e, margin = harm_log_wealth(known, guard.odds_margin), guard.odds_margin
        found = odds_interval(known, alpha)
    reading = Reading(
        metric=guard.name,
        stratum=stratum.name,
        canary_devices=at_risk,
        control_devices=stratum.control.devices,
        estimate=_number(found.estimate),
        low=found.lower,
        high=min(found.upper, MOST_ODDS),
        margin=margin,
        finding=safe,
        excess=(found.lower - margin) / margin,
    )
    return reading, (Cell(guard.name, stratum.name, log_e),)


def _mean(
    mean: MeanGuardrail,
    stratum: Stratum,
    parts: tuple[Stratum, ...],
    policy: VerdictPolicy,
    alpha: float,
    next_share: float,
    first_release: bool,
) -> tuple[Reading, tuple[Cell, ...]]:
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
    safe = _safe(_at_exposure(wide, next_share, first_release) <= margin)
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
    return _all_or_nothing(betting.mean_lower_bound(canary, alpha / 2) > suffered + margin, alpha)


def _all_or_nothing(certain: bool, alpha: float) -> float:
    """Log of the e-value of a test at level `alpha`: 1 / alpha when it rejects, else nothing at all."""
    return -math.log(alpha) if certain else -CERTAIN


def _tails(policy: VerdictPolicy, memory: Memory) -> list[Reading]:
    """What bootstrap paths say of quantiles and ratios, as of the last look that was taken."""
    found = []
    for guard in policy.tails:
        tail = memory.tails.get(guard.name)
        interval = tail.interval if tail else None
        if tail is None or interval is None:
            found.append(Reading(guard.name, POOLED, 0, 0, None, None, None, guard.margin, Finding.UNASKED))
            continue
        harm = interval.lower > guard.margin
        found.append(
            Reading(
                metric=guard.name,
                stratum=POOLED,
                canary_devices=tail.canary,
                control_devices=tail.control,
                estimate=interval.estimate,
                low=interval.lower,
                high=interval.upper,
                margin=guard.margin,
                finding=Finding.HARM if harm else Finding.UNASKED,
                excess=(interval.lower - guard.margin) / guard.margin,
            )
        )
    return found


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


def _safe(safe: bool) -> Finding:
    return Finding.SAFE if safe else Finding.UNKNOWN


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


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
        if reading.stratum == POOLED and reading.finding is Finding.UNKNOWN
    ]


def _doubtful(cells: list[Cell], policy: VerdictPolicy) -> list[str]:
    """No promotion against evidence that would condemn this cell if it were the only one."""
    bar = -math.log(policy.promote_alpha)
    return [f"{cell.metric} in {cell.stratum} leans to harm" for cell in cells if cell.log_e >= bar]


def _harm(reading: Reading) -> str:
    low = 0.0 if reading.low is None else reading.low
    if low > reading.margin:
        return f"{reading.metric} in {reading.stratum}: at least {low:.4g}, allowed {reading.margin:.4g}"
    found = "unknown" if reading.estimate is None else f"{reading.estimate:.4g}"
    return f"{reading.metric} in {reading.stratum}: {found} with other cells beside it, allowed {reading.margin:.4g}"
