"""The three-way verdict: roll back, promote, or go on collecting.

Harm anywhere (any metric, any stratum) condemns the whole rollout. Each metric in each stratum gives an e-value and
the e-BH rule names harmed cells at level alpha over all of them: with no harm anywhere, the chance of naming any is at
most alpha, and several harmed cells help each other. Bounds are shown at the level that one cell alone would need.
Crashes are bet on by conditional odds, at full exposure against the same devices' past, shares of frames by the mixture
sequence and by betting, tails by bootstrap paths with an alpha of their own.

Promotion needs every pooled metric to be safe at once, so it is not split; no cell that alone would condemn; and arms
that are split as planned (an always-valid sample-ratio check at .001 where the plan is known). A promotion bound is
weighed by the share of the fleet that the next stage exposes: a wide interval may open a 25 % stage but not the last
one. Missing data is never a pass, and never a condemnation either.

Invariants: pure; the order of devices and batches does not matter; the same evidence gives the same verdict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from services.releases.verdict.alarm import worst_strata
from services.releases.verdict.crash_readings import crash_reading, past_reading
from services.releases.verdict.evidence import POOLED, Evidence, Stratum
from services.releases.verdict.findings import Finding, Looked, Reading
from services.releases.verdict.guardrails import VerdictPolicy
from services.releases.verdict.holds import broken_split, doubtful, missing_devices, unsafe
from services.releases.verdict.means import mean_reading
from services.releases.verdict.memory import Memory
from services.releases.verdict.rates import rate_reading

NOTHING_YET = Memory()


class Decision(StrEnum):
    """What the evidence allows. `INCONCLUSIVE` is given by the rollout's deadline, not by the evidence."""

    ROLLBACK = "rollback"
    PROMOTE = "promote"
    CONTINUE = "continue"
    INCONCLUSIVE = "inconclusive"


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
        *broken_split(evidence),
        *missing_devices(evidence, policy, min_devices),
        *unsafe(readings),
        *doubtful(cells, policy),
    )
    decision = Decision.CONTINUE if missing else Decision.PROMOTE
    return Judgement(decision, missing, readings, None, alpha_each, policy, spent)


def _readings(
    evidence: Evidence,
    strata: tuple[Stratum, ...],
    policy: VerdictPolicy,
    alpha: float,
    next_share: float,
    memory: Memory,
) -> list[Looked]:
    """Every metric in every stratum, with its cells for the alarm."""
    few = policy.tolerated_devices / max(evidence.fleet_devices, 1)
    found = [rate_reading(rate, stratum, policy, alpha, next_share, few) for rate in policy.rates for stratum in strata]
    found += [crash_reading(evidence, stratum, policy, alpha, next_share, few, memory) for stratum in strata]
    found += [past_reading(evidence, stratum, policy, alpha) for stratum in strata]
    for mean in policy.means:
        for stratum in strata:
            parts = evidence.strata if stratum.name == POOLED else (stratum,)
            found.append(mean_reading(mean, stratum, parts, policy, alpha, next_share, evidence.first_release))
    return found


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


def _harm(reading: Reading) -> str:
    low = 0.0 if reading.low is None else reading.low
    if low > reading.margin:
        return f"{reading.metric} in {reading.stratum}: at least {low:.4g}, allowed {reading.margin:.4g}"
    found = "unknown" if reading.estimate is None else f"{reading.estimate:.4g}"
    return f"{reading.metric} in {reading.stratum}: {found} with other cells beside it, allowed {reading.margin:.4g}"
