"""What holds a promotion though nothing is harmful: a broken split, silence, doubt."""

from __future__ import annotations

import math
from collections.abc import Sequence

from services.releases.verdict.alarm import Cell
from services.releases.verdict.evidence import POOLED, Evidence
from services.releases.verdict.findings import Finding, Reading
from services.releases.verdict.guardrails import CRASHES_AGAINST_PAST, VerdictPolicy
from services.releases.verdict.sample_ratio import sample_ratio


def broken_split(evidence: Evidence) -> list[str]:
    """Arms of another size than planned hold a promotion: no comparison between them can be trusted."""
    if evidence.exposed_share is None or evidence.targeted is None:
        return []
    exposed = min(sum(evidence.targeted.values()), evidence.fleet_devices)
    split = sample_ratio(exposed, evidence.fleet_devices - exposed, evidence.exposed_share)
    return [split.words()] if split.mismatch() else []


def missing_devices(evidence: Evidence, policy: VerdictPolicy, min_devices: int) -> list[str]:
    """Too few devices have been heard, in all or of a class that matters."""
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


def unsafe(readings: Sequence[Reading]) -> list[str]:
    """Metrics that are not known to be safe over all devices, and crashes that lean to harm in any class."""
    return [
        *(
            f"{one.metric} is not yet known to be safe"
            for one in readings
            if one.stratum == POOLED and one.finding is Finding.UNKNOWN and one.metric != CRASHES_AGAINST_PAST
        ),
        *(
            f"{one.metric} in {one.stratum} leans to harm"
            for one in readings
            if one.finding is Finding.UNKNOWN and one.metric == CRASHES_AGAINST_PAST
        ),
    ]


def doubtful(cells: Sequence[Cell], policy: VerdictPolicy) -> list[str]:
    """No promotion against evidence that would condemn this cell if it were the only one."""
    bar = -math.log(policy.promote_alpha)
    return [f"{cell.metric} in {cell.stratum} leans to harm" for cell in cells if cell.log_e >= bar]
