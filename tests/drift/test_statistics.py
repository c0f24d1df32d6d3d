"""Accumulators merge to what pooled data give; effect size and divergence do not drift by themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.device import DeviceTags
from contracts.statistics import DriftReport, Moments, decode_report, encode_report
from contracts.statistics.drf1 import report_from
from contracts.statistics.moments import BINS, DIMENSIONS, HISTOGRAMS, SUBSPACE
from services.drift.domain.accumulator import CohortDayStatistics, statistics_of
from services.drift.domain.discovery import discoveries
from services.drift.domain.divergence import debiased_divergence, jensen_shannon
from services.drift.domain.effect import effect_size
from services.drift.domain.hotelling import hotelling_test
from services.drift.domain.reading import Reading
from services.drift.domain.reference import Reference, gap_covariance, pooled_spread
from services.drift.domain.votes import Votes
from tests.drift.fleet import Fleet, device_frames, mean_votes, votes_of

PROJECTION = np.linalg.qr(np.random.default_rng(1).normal(size=(DIMENSIONS, SUBSPACE)))[0].T.astype(np.float32)
READING = Reading.of(PROJECTION)


def report(seed: int, frames: int = 60) -> DriftReport:
    """The report of a device that saw random frames, through its bytes and back."""
    rng = np.random.default_rng(seed)
    moments = Moments()
    for z in rng.normal(loc=0.1 * rng.normal(size=DIMENSIONS), size=(frames, DIMENSIONS)):
        bins = np.clip((z[:HISTOGRAMS] * 4 + 8).astype(np.int64), 0, BINS - 1)
        moments.add(z, PROJECTION @ z, bins)
    made = report_from(
        moments,
        pseudonym=f"{seed:032x}",
        embedding_id="e1",
        day=1,
        sessions=2,
        score_mean=float(seed),
        hard_segments=0,
        tags=DeviceTags(device_class="npu-4t", scenario="meeting"),
    )
    return decode_report(encode_report(made, b"key"))


def close(one: CohortDayStatistics, other: CohortDayStatistics) -> bool:
    return bool(
        np.allclose(one.votes.flat(), other.votes.flat(), atol=1e-9)
        and np.allclose(one.moments.projected_squares, other.moments.projected_squares, atol=1e-6)
        and (one.moments.histogram == other.moments.histogram).all()
    )


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(6)), st.integers(1, 5))
def test_reports_merge_to_the_same_in_any_order_and_grouping(order: list[int], cut: int) -> None:
    parts = [statistics_of([report(seed, frames=20)], READING) for seed in range(6)]
    forward = CohortDayStatistics()
    for part in parts:
        forward = forward.merge(part)
    left, right = CohortDayStatistics(), CohortDayStatistics()
    for index in order[:cut]:
        left = left.merge(parts[index])
    for index in order[cut:]:
        right = right.merge(parts[index])
    assert close(forward, left.merge(right))
    assert close(forward, right.merge(left))


def test_each_device_has_one_vote_however_long_it_was_on() -> None:
    busy, quiet = (
        statistics_of([report(1, frames=200)], READING),
        statistics_of([report(2, frames=20)], READING),
    )
    both = busy.merge(quiet)
    assert both.votes.mean == pytest.approx((busy.votes.mean + quiet.votes.mean) / 2)
    assert both.votes.score == pytest.approx(1.5)
    by_frame = (200 * busy.moments.projected_mean + 20 * quiet.moments.projected_mean) / 220
    assert both.moments.projected_mean == pytest.approx(by_frame)
    assert both.moments.count == 220


def test_votes_equal_mean_and_covariance_of_the_devices() -> None:
    means = np.random.default_rng(0).normal(size=(50, SUBSPACE))
    votes = Votes.empty()
    for mean in means:
        votes = votes.merge(Votes.of(mean, np.ones((HISTOGRAMS, BINS), dtype=np.int64), 0.0))
    assert votes.mean == pytest.approx(means.mean(axis=0))
    assert votes.comoments / 49 == pytest.approx(np.cov(means.T))


def test_stored_statistics_come_back_as_they_were() -> None:
    statistics = statistics_of([report(3)], READING).merge(statistics_of([report(4)], READING))
    again = CohortDayStatistics.from_bytes(statistics.to_bytes())
    assert close(statistics, again)
    assert again.votes.count == 2
    reference = Reference.of_days([statistics.votes, again.votes])
    assert Reference.from_bytes(reference.to_bytes()).freedom == 2
    with pytest.raises(ValueError, match="another version"):
        CohortDayStatistics.from_bytes(statistics.to_bytes()[:-8])


def test_differences_between_days_never_widen_the_spread() -> None:
    rng = np.random.default_rng(5)
    days = [rng.normal(size=(200, SUBSPACE)) + level for level in (0.0, 50.0)]
    reference = Reference.of_days([mean_votes(day) for day in days])
    assert np.diag(pooled_spread([reference]).covariance).max() < 2


def test_hotelling_equals_the_textbook_on_one_dimension() -> None:
    test = hotelling_test(np.array([0.5]), np.array([[4.0 / 25]]), 98)
    assert test.t2 == pytest.approx(0.25 / 4 * 25)
    assert test.p == pytest.approx(0.214, abs=1e-3)  # two-sided t of 1.25 with 98 degrees of freedom
    with pytest.raises(ValueError, match="degrees of freedom"):
        hotelling_test(np.zeros(5), np.eye(5), 5)


def effect(current: Votes, reference: Reference) -> float:
    gap = current.mean - reference.votes.mean
    return effect_size(gap, gap_covariance(current, reference, pooled_spread([reference])))


@pytest.mark.parametrize("devices", [60, 100, 400])
def test_the_effect_of_chance_alone_is_about_zero(devices: int) -> None:
    rng = np.random.default_rng(devices)
    found = []
    for _ in range(100):
        reference = Reference.of_days([mean_votes(rng.normal(size=(2 * devices, SUBSPACE)))])
        found.append(effect(mean_votes(rng.normal(size=(devices, SUBSPACE))), reference))
    raw = np.sqrt(SUBSPACE * 1.5 / devices)
    assert np.median(found) < 0.35 * raw
    assert np.quantile(found, 0.99) < raw


def test_the_effect_of_a_real_shift_is_its_length() -> None:
    rng = np.random.default_rng(0)
    shift = np.full(SUBSPACE, 1.0 / np.sqrt(SUBSPACE))
    reference = Reference.of_days([mean_votes(rng.normal(size=(2_000, SUBSPACE)))])
    current = mean_votes(rng.normal(size=(1_000, SUBSPACE)) + shift)
    assert effect(current, reference) == pytest.approx(1.0, abs=0.1)


def test_the_divergence_is_in_nats() -> None:
    apart = jensen_shannon(np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    assert float(apart) == pytest.approx(np.log(2))
    assert float(jensen_shannon(np.array([0.3, 0.7]), np.array([0.3, 0.7]))) == 0.0


@pytest.mark.parametrize("frames", [1, 20])
def test_the_divergence_of_equal_fleets_is_about_zero_however_frames_resemble_each_other(frames: int) -> None:
    fleet, still = Fleet(21, frames=frames), np.zeros(SUBSPACE)
    rng = fleet.generator()
    found, raw = [], []
    for _ in range(8):
        reference = votes_of(device_frames(rng, fleet, 400, 1.0, still))
        current = votes_of(device_frames(rng, fleet, 200, 1.0, still))
        found.append(debiased_divergence(current, reference))
        raw.append(float(jensen_shannon(current.shares, reference.shares).max()))
    assert np.mean(found) < 0.6 * np.mean(raw)
    assert max(found) < 0.03


def test_the_bias_of_independent_frames_is_the_textbooks() -> None:
    fleet = Fleet(23, frames=1)
    rng = fleet.generator()
    one, other = (votes_of(device_frames(rng, fleet, devices, 1.0, np.zeros(SUBSPACE))) for devices in (400, 200))
    raw = float(jensen_shannon(one.shares, other.shares).max())
    textbook = 15 / 8 * (1 / 400 + 1 / 200)
    assert raw - debiased_divergence(one, other) == pytest.approx(textbook, rel=0.1)


def test_a_standard_deviation_on_one_direction_is_severe() -> None:
    fleet, shift = Fleet(22, frames=30), np.zeros(SUBSPACE)
    shift[0] = 1.1
    rng = fleet.generator()
    reference = votes_of(device_frames(rng, fleet, 400, 1.0, np.zeros(SUBSPACE)))
    current = votes_of(device_frames(rng, fleet, 300, 1.0, shift))
    assert debiased_divergence(current, reference) > 0.1


def test_false_discoveries_are_bounded_by_rank() -> None:
    assert discoveries([0.01, 0.04, 0.03, 0.005], 0.05) == (True, True, True, True)
    assert discoveries([0.02, 0.5, 0.9], 0.05) == (False, False, False)
    assert discoveries([0.001, 0.5, 0.9], 0.05) == (True, False, False)
    assert discoveries([], 0.05) == ()


@given(st.lists(st.floats(0, 1), max_size=20), st.floats(0.001, 0.5))
def test_a_smaller_p_is_never_kept_while_a_larger_one_is_rejected(values: list[float], rate: float) -> None:
    rejected = discoveries(values, rate)
    worst = max((p for p, hit in zip(values, rejected, strict=True) if hit), default=-1.0)
    assert all(hit for p, hit in zip(values, rejected, strict=True) if p <= worst)
