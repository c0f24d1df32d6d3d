"""Crashes: by odds against a concurrent control while there is one, against the same devices' past at full exposure."""

from __future__ import annotations

import math

from services.releases.verdict import past
from services.releases.verdict.alarm import Cell, rate_log_e
from services.releases.verdict.crashes import MOST_ODDS, CrashEvidence, harm_log_wealth, odds_interval
from services.releases.verdict.evidence import POOLED, Evidence, Stratum
from services.releases.verdict.findings import Finding, Looked, Reading, all_or_nothing, safe_or_unknown
from services.releases.verdict.guardrails import CRASHES_AGAINST_PAST, VerdictPolicy
from services.releases.verdict.intervals import rate_interval
from services.releases.verdict.memory import Memory


def crash_reading(
    evidence: Evidence,
    stratum: Stratum,
    policy: VerdictPolicy,
    alpha: float,
    next_share: float,
    few: float,
    memory: Memory,
) -> Looked:
    """Odds of a crash against the control's (as an interval up to `MOST_ODDS`); a first release has a ceiling."""
    guard = policy.crashes
    crashed, at_risk = stratum.failures(guard.name)
    wide = rate_interval(crashed, at_risk, policy.promote_alpha, policy.rate_prior)
    safe = safe_or_unknown(at_risk > 0 and wide.upper * next_share <= max(guard.tolerated, few))
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


def past_reading(evidence: Evidence, stratum: Stratum, policy: VerdictPolicy, alpha: float) -> Looked:
    """First crashes of devices against their own time as control, once no control is left.

    Another time is a weaker comparison, so the margin of a roll back is wider than beside a control; what exceeds the
    usual margin holds the release for a person. Nothing is bounded from above: `high` is `MOST_ODDS`.
    """
    guard, margin = policy.crashes, policy.crashes.past_margin
    known = past.pooled(evidence.past.values()) if stratum.name == POOLED else evidence.past.get(stratum.name)
    if known is None or not known.comparable:
        nothing = Reading(CRASHES_AGAINST_PAST, stratum.name, 0, 0, None, None, None, margin, Finding.UNASKED)
        return nothing, (Cell(CRASHES_AGAINST_PAST, stratum.name, 0.0),)
    low = past.ratio_lower_bound(known, alpha)
    doubt = past.doubtful(known, guard.odds_margin, policy.promote_alpha)
    reading = Reading(
        metric=CRASHES_AGAINST_PAST,
        stratum=stratum.name,
        canary_devices=known.after.devices,
        control_devices=known.before.devices,
        estimate=_number(known.ratio),
        low=low,
        high=MOST_ODDS,
        margin=margin,
        finding=Finding.UNKNOWN if doubt else Finding.UNASKED,
        excess=(low - margin) / margin,
    )
    certain = past.exceeds(known, margin, alpha)
    return reading, (Cell(CRASHES_AGAINST_PAST, stratum.name, all_or_nothing(certain, alpha)),)


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
