"""What users of other drift tools complained about, one test a complaint (repository and thread in each name)."""

from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np
import pytest

from contracts.statistics import DriftReport, ReportError, decode_report, encode_report
from contracts.statistics.moments import SUBSPACE
from contracts.wire.drift import AlarmAction, CohortDay, DriftAlarm, DriftState
from services.drift.domain import hotelling
from services.drift.domain.accumulator import CohortDayStatistics, statistics_of
from services.drift.domain.alarm import alarm_id
from services.drift.domain.decision import decide
from services.drift.domain.hotelling import hotelling_test
from services.drift.domain.reading import Reading
from services.drift.domain.reference import Reference, pooled_spread
from services.drift.domain.verdict import Verdict, judge, measure
from services.drift.limits import DriftSettings
from tests.drift.fleet import mean_votes
from tests.drift.reports import fleet_day, observer, one_report
from tests.drift.test_rules import FACTS

SETTINGS = DriftSettings()
READING = Reading.of(observer().projection)


def reports(devices: int, shift: float = 0.0) -> list[DriftReport]:
    return [decode_report(payload) for payload in fleet_day("npu-4t/mobile", 1, devices, shift)]


def verdict_of(devices: int, size: float, seed: int) -> Verdict:
    rng = np.random.default_rng(seed)
    shift = np.full(SUBSPACE, size / np.sqrt(SUBSPACE))
    base = Reference.of_days([mean_votes(rng.normal(size=(devices, SUBSPACE))) for _ in range(2)])
    day = mean_votes(rng.normal(size=(devices, SUBSPACE)) + shift)
    return judge({"a/b": measure(day, base, pooled_spread([base]), SETTINGS)}, SETTINGS)["a/b"]


@pytest.mark.parametrize("devices", [500, 2_000, 20_000])
def test_evidently_50_the_answer_does_not_flip_with_the_amount_of_data(devices: int) -> None:
    assert verdict_of(devices, 0.1, devices).state is DriftState.STABLE
    assert verdict_of(devices, 0.6, devices).state is DriftState.WARN
    assert verdict_of(devices, 1.3, devices).state is DriftState.SEVERE


def test_evidently_509_eight_rows_are_insufficient_data_and_never_drift() -> None:
    base = Reference.of_days([mean_votes(np.random.default_rng(0).normal(size=(400, SUBSPACE)))])
    eight = mean_votes(np.random.default_rng(1).normal(size=(8, SUBSPACE)) + 9.0)
    verdict = measure(eight, base, pooled_spread([base]), SETTINGS)
    assert (verdict.state, verdict.p) == (DriftState.INSUFFICIENT, None)


def test_evidently_1526_and_506_what_a_day_costs_does_not_depend_on_its_frames_or_devices() -> None:
    few, many = statistics_of(reports(2), READING), statistics_of(reports(300), READING)
    assert len(few.to_bytes()) == len(many.to_bytes()) < 25_000


def test_evidently_648_the_direction_of_drift_is_part_of_every_answer() -> None:
    assert {"directions"} <= set(CohortDay.model_fields) & set(DriftAlarm.model_fields)
    verdict = verdict_of(1_000, 1.0, 3)
    assert len(verdict.directions) == 3
    assert all(one.shift > 0 for one in verdict.directions)


def test_modyn_414_the_null_comes_from_both_sides_so_healthy_days_are_quiet() -> None:
    states = [verdict_of(200, 0.0, seed) for seed in range(200, 300)]
    assert [one.state for one in states if one.state is not DriftState.STABLE] == []
    assert np.mean([one.p is not None and one.p < 0.05 for one in states]) <= 0.1


def test_alibi_960_a_p_value_is_never_zero() -> None:
    test = hotelling_test(np.full(SUBSPACE, 1e9), np.eye(SUBSPACE), 1_000)
    assert test.p > 0.0
    assert np.isfinite(test.z)


def test_alibi_597_no_matrix_grows_with_the_devices() -> None:
    """The largest array of a judgement is 28 x 28 or 8 x 16, whatever the number of devices."""
    day = statistics_of(reports(200), READING)
    sizes = [np.size(value) for value in vars(day.votes).values()]
    assert max(sizes) == SUBSPACE * SUBSPACE
    assert "pairwise" not in inspect.getsource(hotelling)


def test_whylogs_684_the_same_reports_in_any_order_give_the_same_p() -> None:
    base = Reference.of_days([mean_votes(np.random.default_rng(4).normal(size=(400, SUBSPACE)))])
    spread, found = pooled_spread([base]), []
    sent = reports(120, 0.1)
    for seed in range(10):
        order = np.random.default_rng(seed).permutation(len(sent))
        total = CohortDayStatistics()
        for chunk in np.array_split(order, seed + 1):
            total = total.merge(statistics_of([sent[i] for i in chunk], READING))
        found.append(measure(total.votes, base, spread, SETTINGS).p)
    assert found == pytest.approx([found[0]] * 10, rel=1e-6)


def test_whylogs_461_five_thousand_of_the_same_law_are_not_severe() -> None:
    assert verdict_of(5_000, 0.0, 5).state is DriftState.STABLE


def test_sagemaker_2628_every_threshold_of_a_cohort_can_be_overridden() -> None:
    strict = SETTINGS.model_copy(update={"d_warn": 0.05, "d_severe": 0.1})
    verdict = verdict_of(20_000, 0.2, 6)
    assert verdict.state is DriftState.STABLE
    own = judge({"a/b": verdict, "a/c": verdict}, SETTINGS, {"a/b": strict})
    assert (own["a/b"].state, own["a/c"].state) == (DriftState.SEVERE, DriftState.STABLE)


def test_posthog_46932_the_key_of_an_alarm_includes_its_data_and_a_failed_run_releases_the_cool_down() -> None:
    assert alarm_id("e", ["a"], 1, 3) != alarm_id("e", ["a"], 2, 4)
    just_now = replace(FACTS, retrained_at=(FACTS.now - 60,))
    assert decide(just_now).action is AlarmAction.COOL_DOWN
    assert decide(replace(just_now, failed=True)).action is AlarmAction.RETRAIN
    spent = replace(just_now, failed=True, weekly_budget=1)
    assert decide(spent).action is AlarmAction.BUDGET


def test_flower_4982_clipped_frames_are_counted_on_the_way() -> None:
    sent = [replace(one, clipped=7) for one in reports(5)]
    assert statistics_of(sent, READING).moments.clipped == 35


def report() -> DriftReport:
    return decode_report(one_report("npu-4t/mobile", 1, np.zeros(SUBSPACE), np.random.default_rng(0)))


@pytest.mark.parametrize(
    "bad",
    [
        replace(report(), mean=np.full(256, 9.0, np.float32)),
        replace(report(), variance=np.full(256, 80.0, np.float32)),
        replace(report(), score_mean=1e30),
        replace(report(), projected_covariance=-np.eye(SUBSPACE, dtype=np.float32)),
    ],
    ids=["mean", "variance", "score", "negative variance"],
)
def test_one_device_cannot_carry_a_cohort_away_with_numbers_that_no_frames_have(bad: DriftReport) -> None:
    with pytest.raises(ReportError) as refusal:
        decode_report(encode_report(bad, b"key"))
    assert refusal.value.reason == "range"


def test_negative_counts_do_not_add_up_to_the_frames() -> None:
    """Written as -1, an unsigned count reads 65,535: it never adds up."""
    good = report()
    counts = good.histogram.copy()
    counts[0, 0] = 65_535
    with pytest.raises(ReportError) as refusal:
        decode_report(encode_report(replace(good, histogram=counts), b"key"))
    assert refusal.value.reason == "counts"
