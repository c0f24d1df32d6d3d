"""Verdicts, alarms and decisions: the rules a person must be able to rely on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from contracts.wire.drift import AlarmAction, DriftState
from services.drift.domain.alarm import alarm_id, alarmed_cohorts
from services.drift.domain.decision import Facts, decide
from services.drift.domain.reference import Reference, Spread, pooled_spread
from services.drift.domain.verdict import Verdict, judge, measure
from services.drift.domain.votes import Votes
from services.drift.limits import DriftSettings
from tests.drift.fleet import mean_votes

SETTINGS = DriftSettings()
S, W, SEV, NOT, REF = (
    DriftState.STABLE,
    DriftState.WARN,
    DriftState.SEVERE,
    DriftState.INSUFFICIENT,
    DriftState.REFERENCE,
)


def measured(p: float, z: float, d: float, js: float | None = None) -> Verdict:
    return Verdict(S, "", p=p, z=z, d=d, js=js)


def votes(devices: int) -> Votes:
    return mean_votes(np.random.default_rng(devices).normal(size=(devices, 28)))


@pytest.mark.parametrize(
    ("verdict", "state"),
    [
        (measured(1e-9, 6.0, 0.2), S),
        (measured(1e-9, 6.0, 0.2, 0.01), S),
        (measured(1e-9, 6.0, 0.4), W),
        (measured(1e-9, 6.0, 0.2, 0.05), W),
        (measured(1e-9, 6.0, 1.2), SEV),
        (measured(1e-9, 6.0, 0.2, 0.2), SEV),
        (measured(1e-3, 3.1, 2.0, 0.5), S),
    ],
)
def test_drift_is_significant_and_material(verdict: Verdict, state: DriftState) -> None:
    assert judge({"a": verdict}, SETTINGS)["a"].state is state


def test_one_of_a_thousand_cohorts_needs_a_stronger_sign_than_one_alone() -> None:
    suspect = measured(1e-4, 3.72, 2.0)
    calm = {f"c{index}": measured(0.5, 0.0, 0.1) for index in range(999)}
    assert judge({"a": suspect}, SETTINGS)["a"].state is SEV
    assert judge({"a": suspect, **calm}, SETTINGS)["a"].state is S


@pytest.mark.parametrize("devices", [1, 8, 59])
def test_too_few_devices_are_neither_drift_nor_its_absence(devices: int) -> None:
    reference = Reference.of_days([votes(400)])
    verdict = measure(votes(devices), reference, pooled_spread([reference]), SETTINGS)
    assert verdict.state is NOT
    assert f"{devices} devices" in verdict.reason
    assert verdict.z is None


def test_an_unseen_cohort_waits_for_its_own_reference() -> None:
    reference = Reference.of_days([votes(400)])
    verdict = measure(votes(100), None, pooled_spread([reference]), SETTINGS)
    assert verdict.state is NOT
    assert "no reference" in verdict.reason


def test_an_unknown_spread_is_too_little_evidence() -> None:
    reference = Reference.of_days([votes(100)])
    assert measure(votes(100), reference, pooled_spread([reference]), SETTINGS).state is NOT
    assert measure(votes(100), reference, None, SETTINGS).state is NOT


def test_the_divergence_needs_more_devices_than_the_mean() -> None:
    reference = Reference.of_days([votes(400)])
    spread = Spread(np.eye(28), 400)
    assert measure(votes(100), reference, spread, SETTINGS).js is None
    assert measure(votes(250), reference, spread, SETTINGS).js is not None


def test_two_of_three_days_make_an_alarm() -> None:
    states = {"a": {1: W, 2: S, 3: W}, "b": {1: W, 2: S, 3: S}, "c": {3: SEV}, "d": {2: SEV, 3: SEV}}
    assert alarmed_cohorts(states, 3, 3, 2) == ("a", "d")


def test_old_days_and_gaps_do_not_count() -> None:
    assert alarmed_cohorts({"a": {0: W, 3: W}}, 3, 3, 2) == ()
    assert alarmed_cohorts({"a": {1: W, 3: W}}, 3, 3, 2) == ("a",)
    assert alarmed_cohorts({"a": {1: REF, 2: NOT, 3: W}}, 3, 3, 2) == ()


def test_an_alarm_has_one_name_however_its_cohorts_are_listed() -> None:
    assert alarm_id("e", ["a", "b"], 1, 3) == alarm_id("e", ["b", "a"], 1, 3)
    assert alarm_id("e", ["a", "b"], 1, 3) != alarm_id("e", ["a"], 1, 3)
    assert alarm_id("e", ["a"], 1, 3) != alarm_id("e", ["a"], 2, 4)


FACTS = Facts(
    now=1_000_000.0,
    raised_at=999_000.0,
    coverage_at=999_500.0,
    clusters=3,
    uncovered=2,
    retrained_at=(),
    running=None,
    cool_down_s=86_400.0,
    weekly_budget=2,
)


@pytest.mark.parametrize(
    ("change", "action", "words"),
    [
        ({}, AlarmAction.RETRAIN, "2 of 3 hard clusters"),
        ({"coverage_at": None}, AlarmAction.PENDING, "clustering"),
        ({"coverage_at": 998_999.0}, AlarmAction.PENDING, "clustering"),
        ({"clusters": 0, "uncovered": 0}, AlarmAction.BENIGN, "benign: no cluster"),
        ({"clusters": 0, "uncovered": 0, "quality_fell": False}, AlarmAction.BENIGN, "quality did not fall"),
        ({"uncovered": 0, "quality_fell": False}, AlarmAction.BENIGN, "quality did not fall"),
        ({"clusters": 0, "uncovered": 0, "quality_fell": True}, AlarmAction.NO_EXAMPLES, "upload budget"),
        ({"uncovered": 0, "quality_fell": True}, AlarmAction.COVERED, "covered"),
        ({"quality_fell": False}, AlarmAction.RETRAIN, "2 of 3 hard clusters"),
        ({"uncovered": 0}, AlarmAction.COVERED, "covered"),
        ({"running": "run-1"}, AlarmAction.COOL_DOWN, "run-1"),
        ({"retrained_at": (950_000.0,)}, AlarmAction.COOL_DOWN, "cool-down"),
        ({"retrained_at": (900_000.0,)}, AlarmAction.RETRAIN, ""),
        ({"retrained_at": (900_000.0, 700_000.0)}, AlarmAction.BUDGET, "budget"),
        ({"retrained_at": (900_000.0, 300_000.0)}, AlarmAction.RETRAIN, ""),
    ],
)
def test_an_alarm_leads_to_one_action_with_its_reason(
    change: dict[str, object], action: AlarmAction, words: str
) -> None:
    decision = decide(replace(FACTS, **change))  # type: ignore[arg-type]  # parametrised fields
    assert decision.action is action
    assert words in decision.reason
