"""Verdict on one cohort-day: enough evidence, significant, material.

Significance alone flags any trifle in a large fleet; size alone flags chance in a small one. Drift needs
both, and either size will do: a shift of D = 0.5 spread over 28 directions has a divergence of only 0.007
nats, and 0.12 nats on one direction is a full standard deviation.

Invariant: too little evidence is its own answer, neither drift nor its absence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from contracts.wire.drift import DriftState
from services.drift.domain.discovery import discoveries
from services.drift.domain.divergence import debiased_divergence
from services.drift.domain.effect import effect_size
from services.drift.domain.hotelling import hotelling_test
from services.drift.domain.reference import Reference, Spread, gap_covariance
from services.drift.domain.votes import Votes


class Thresholds(Protocol):
    """The numbers a verdict depends on; see `services.drift.limits.DriftSettings` for units."""

    @property
    def min_devices(self) -> int: ...
    @property
    def min_freedom(self) -> int: ...
    @property
    def min_devices_js(self) -> int: ...
    @property
    def z_threshold(self) -> float: ...
    @property
    def false_discovery_rate(self) -> float: ...
    @property
    def d_warn(self) -> float: ...
    @property
    def d_severe(self) -> float: ...
    @property
    def js_warn(self) -> float: ...
    @property
    def js_severe(self) -> float: ...


@dataclass(frozen=True)
class Verdict:
    """State of a cohort-day with the numbers behind it; `None` where evidence did not suffice to compute
    one.
    """

    state: DriftState
    reason: str
    p: float | None = None
    z: float | None = None
    d: float | None = None
    js: float | None = None


def insufficient(reason: str) -> Verdict:
    """The answer to too little evidence."""
    return Verdict(DriftState.INSUFFICIENT, reason)


def measure(votes: Votes, reference: Reference | None, spread: Spread | None, limits: Thresholds) -> Verdict:
    """Compute the numbers of one cohort-day; the state is STABLE (to be judged) or INSUFFICIENT."""
    missing = _missing(votes, reference, spread, limits)
    if missing:
        return insufficient(missing)
    assert reference is not None
    assert spread is not None
    base = reference.votes
    gap, covariance = votes.mean - base.mean, gap_covariance(votes, reference, spread)
    test = hotelling_test(gap, covariance, spread.freedom)
    enough_js = min(votes.count, base.count) >= limits.min_devices_js
    return Verdict(
        state=DriftState.STABLE,
        reason="",
        p=test.p,
        z=test.z,
        d=effect_size(gap, covariance),
        js=debiased_divergence(votes, base) if enough_js else None,
    )


def judge(measured: Mapping[str, Verdict], limits: Thresholds) -> dict[str, Verdict]:
    """Judge all cohorts of one day together, so that many cohorts do not make many false alarms."""
    tested = {cohort: verdict.p for cohort, verdict in measured.items() if verdict.p is not None}
    rejected = dict(zip(tested, discoveries(list(tested.values()), limits.false_discovery_rate), strict=True))
    return {
        cohort: _judged(verdict, rejected[cohort], limits) if cohort in rejected else verdict
        for cohort, verdict in measured.items()
    }


def drifting(state: DriftState) -> bool:
    """Whether a day in this state counts towards an alarm."""
    return state in (DriftState.WARN, DriftState.SEVERE)


def _missing(votes: Votes, reference: Reference | None, spread: Spread | None, limits: Thresholds) -> str:
    if reference is None:
        return "the cohort has no reference yet: its first days are still being collected"
    if votes.count < limits.min_devices:
        return f"{votes.count} devices reported, the test needs {limits.min_devices}"
    if reference.votes.count < limits.min_devices:
        return f"the reference holds {reference.votes.count} device-days, the test needs {limits.min_devices}"
    if spread is None or spread.freedom < limits.min_freedom:
        have = spread.freedom if spread else 0
        return f"{have} device-days describe how devices differ, the test needs {limits.min_freedom}"
    return ""


def _judged(verdict: Verdict, discovered: bool, limits: Thresholds) -> Verdict:
    assert verdict.z is not None
    assert verdict.d is not None
    js = verdict.js or 0.0
    if not discovered or verdict.z <= limits.z_threshold:
        return replace(verdict, reason="no significant shift")
    if verdict.d >= limits.d_severe or js >= limits.js_severe:
        return replace(verdict, state=DriftState.SEVERE, reason="significant and large")
    if verdict.d >= limits.d_warn or js >= limits.js_warn:
        return replace(verdict, state=DriftState.WARN, reason="significant and material")
    return replace(verdict, reason="significant but too small to matter")
