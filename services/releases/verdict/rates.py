"""Rates: devices that fail or do not, and how many clean ones open a stage."""

from __future__ import annotations

from bisect import bisect_left

from services.releases.verdict.alarm import Cell, rate_log_e
from services.releases.verdict.evidence import Stratum
from services.releases.verdict.findings import Looked, Reading, all_or_nothing, safe_or_unknown
from services.releases.verdict.guardrails import RateGuardrail, VerdictPolicy
from services.releases.verdict.intervals import rate_interval


def rate_reading(
    rate: RateGuardrail,
    stratum: Stratum,
    policy: VerdictPolicy,
    alpha: float,
    next_share: float,
    few: float,
) -> Looked:
    """Devices that fail, against a fixed share or against what the control suffers too."""
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
        finding=safe_or_unknown(at_risk > 0 and wide.upper * next_share <= max(rate.tolerated, few)),
        excess=(low - margin) / margin,
    )
    log_e = all_or_nothing(low > margin, alpha) if against else rate_log_e(failed, at_risk, margin, policy.rate_prior)
    return reading, (Cell(rate.name, stratum.name, log_e),)


def clean_canary(policy: VerdictPolicy, next_share: float, fleet_devices: int) -> int:
    """The fewest devices that open an exposure of `next_share` when none of them fails any rate guardrail."""
    few = policy.tolerated_devices / max(fleet_devices, 1)
    bounds = (*(rate.tolerated for rate in policy.rates), policy.crashes.tolerated)
    tolerated = min(max(bound, few) for bound in bounds)

    def opens(devices: int) -> bool:
        return rate_interval(0, devices, policy.promote_alpha, policy.rate_prior).upper * next_share <= tolerated

    return bisect_left(range(1, max(fleet_devices, 1)), True, key=opens) + 1
