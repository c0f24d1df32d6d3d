"""Verdict on one cohort-day: enough evidence, significant, material.

Significance alone flags any trifle in a large fleet; size alone flags chance in a small one. Drift needs
both, and either size will do: a shift of D = 0.5 spread over 28 directions has a divergence of only 0.007
nats, and 0.12 nats on one direction is a full standard deviation.

Two tests look at a cohort-day: the mean in the subspace (Hotelling), and the energy outside it (Welch). Each pays
for the other (Bonferroni), and each has its own size, so that chance in one never meets significance in the other.

Invariant: too little evidence is its own answer, neither drift nor its absence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from contracts.wire.drift import DriftState
from services.drift.domain.directions import Direction, top_directions
from services.drift.domain.discovery import tree_discoveries
from services.drift.domain.divergence import debiased_divergence
from services.drift.domain.effect import effect_size
from services.drift.domain.hotelling import hotelling_test, sigma_of
from services.drift.domain.quality import QualityChange, quality_change
from services.drift.domain.reference import Reference, Spread, gap_covariance
from services.drift.domain.residual import ResidualTest, residual_test
from services.drift.domain.votes import Votes

TOP_DIRECTIONS = 3
"""Directions that a verdict names."""


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
    @property
    def residual_warn(self) -> float: ...
    @property
    def residual_severe(self) -> float: ...
    @property
    def quality_alpha(self) -> float: ...
    @property
    def quality_fall_db(self) -> float: ...


@dataclass(frozen=True)
class Verdict:
    """State of a cohort-day with the numbers behind it; `None` where evidence did not suffice to compute
    one.

    `p` and `z` are of both tests together, `z_mean` and `z_residual` of each with its share of the price. `d`, `js`
    and `residual` are sizes: reference standard deviations, nats, signed R. `directions` says where the mean went.
    """

    state: DriftState
    reason: str
    p: float | None = None
    z: float | None = None
    d: float | None = None
    js: float | None = None
    z_mean: float | None = None
    z_residual: float | None = None
    residual: float | None = None
    directions: tuple[Direction, ...] = ()
    quality: QualityChange | None = None


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
    test, outside = hotelling_test(gap, covariance, spread.freedom), residual_test(votes, reference)
    enough_js = min(votes.count, base.count) >= limits.min_devices_js
    p_mean, p_residual = _shared(test.p, outside)
    p = p_mean if p_residual is None else min(p_mean, p_residual)
    return Verdict(
        state=DriftState.STABLE,
        reason="",
        p=p,
        z=sigma_of(p),
        d=effect_size(gap, covariance),
        js=debiased_divergence(votes, base) if enough_js else None,
        z_mean=sigma_of(p_mean),
        z_residual=None if p_residual is None else sigma_of(p_residual),
        residual=outside.r if outside else None,
        directions=top_directions(gap, covariance, TOP_DIRECTIONS),
        quality=quality_change(votes, reference, limits.quality_alpha, limits.quality_fall_db),
    )


def judge(
    measured: Mapping[str, Verdict], limits: Thresholds, own: Mapping[str, Thresholds] | None = None
) -> dict[str, Verdict]:
    """Judge all cohorts of one day together, so that many cohorts do not make many false alarms.

    Cohorts are `device class/scenario`; a device class is a family of the tree. `own` holds thresholds of cohorts
    that differ from `limits`; the false discovery rate is the day's and always that of `limits`.
    """
    families: dict[str, dict[str, float]] = {}
    for cohort, verdict in measured.items():
        if verdict.p is not None:
            families.setdefault(cohort.split("/", 1)[0], {})[cohort] = verdict.p
    found = {cohort for _, cohort in tree_discoveries(families, limits.false_discovery_rate)}
    return {
        cohort: verdict if verdict.p is None else _judged(verdict, cohort in found, (own or {}).get(cohort, limits))
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


def _shared(p_mean: float, outside: ResidualTest | None) -> tuple[float, float | None]:
    """Both tests' p values, each paying for the other where there are two."""
    if outside is None:
        return p_mean, None
    return min(1.0, 2.0 * p_mean), min(1.0, 2.0 * outside.p)


def _judged(verdict: Verdict, discovered: bool, limits: Thresholds) -> Verdict:
    assert verdict.z is not None
    assert verdict.d is not None
    if not discovered or verdict.z <= limits.z_threshold:
        return replace(verdict, reason="no significant shift")
    z_mean = verdict.z if verdict.z_mean is None else verdict.z_mean
    moved = z_mean > limits.z_threshold
    d, js = (verdict.d, verdict.js or 0.0) if moved else (0.0, 0.0)
    outside = (verdict.z_residual or 0.0) > limits.z_threshold
    r = abs(verdict.residual or 0.0) if outside else 0.0
    where = "in what the 28 directions see" if moved else "outside the 28 directions"
    if d >= limits.d_severe or js >= limits.js_severe or r >= limits.residual_severe:
        return replace(verdict, state=DriftState.SEVERE, reason=f"significant and large, {where}")
    if d >= limits.d_warn or js >= limits.js_warn or r >= limits.residual_warn:
        return replace(verdict, state=DriftState.WARN, reason=f"significant and material, {where}")
    return replace(verdict, reason="significant but too small to matter")
