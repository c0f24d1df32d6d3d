"""The weekly A/A report: parts by chance, the real rate of false alarms, the power on this fleet."""

from __future__ import annotations

import numpy as np
import pytest
from sqlalchemy import select, text

from contracts.statistics.moments import SUBSPACE
from services.drift import calibrate, ingest
from services.drift.domain.calibration import Rate, power
from services.drift.domain.calibration import calibrate as try_on
from services.drift.domain.reference import Spread
from services.drift.domain.shards import SHARDS, Shards, shard_of
from services.drift.domain.votes import Votes
from services.drift.limits import DriftSettings
from services.drift.models import CalibrationRow, CohortDayRow
from services.kit.database import transaction
from services.kit.settings import Settings
from tests.drift.reports import fleet_day, observer
from tests.drift.test_pipeline import evaluate, noon, take

SETTINGS = DriftSettings()
WEEK = 2_858
FIRST = WEEK * 7
COHORTS = ("npu-4t/mobile", "npu-4t/office")


def day(rng: np.random.Generator, devices: int, lift: float = 0.0) -> Shards:
    """A day whose parts differ by chance, and in the first part by `lift` a direction."""
    parts = []
    for index in range(SHARDS):
        means = rng.normal(scale=np.sqrt(0.5), size=(devices // SHARDS, SUBSPACE)) + lift * (index == 0)
        logs = rng.normal(size=len(means))
        parts.append(Votes.of_devices(means, np.zeros((len(means), 0, 0)), logs, logs))
    return Shards.of(parts)


SPREAD = Spread(0.5 * np.eye(SUBSPACE), 2_000)


def test_parts_follow_from_the_pseudonym_and_are_about_even() -> None:
    counts = np.bincount([shard_of(f"{i:032x}") for i in range(4_000)], minlength=SHARDS)
    assert shard_of("ab" * 16) == shard_of("ab" * 16)
    assert counts.min() > 400


def test_parts_survive_their_bytes_and_merge_as_votes_do() -> None:
    rng = np.random.default_rng(1)
    one, two = day(rng, 80), day(rng, 160)
    again = Shards.from_bytes(one.to_bytes())
    both = again.merge(two)
    for part, first, second in zip(both.parts, one.parts, two.parts, strict=True):
        whole = first.merge(second)
        assert part.count == whole.count
        np.testing.assert_allclose(part.mean, whole.mean, atol=1e-6)
        np.testing.assert_allclose(part.comoments, whole.comoments, rtol=1e-4, atol=1e-4)
        assert part.residual.squares == pytest.approx(whole.residual.squares, rel=1e-5)
    assert len(one.to_bytes()) < 16_000
    with pytest.raises(ValueError, match="another version"):
        Shards.from_bytes(one.to_bytes()[:-4])
    with pytest.raises(ValueError, match="8 parts"):
        Shards.of([Votes.empty()])


def test_a_day_has_35_pairs_of_halves_that_hold_every_device_once() -> None:
    halves = list(day(np.random.default_rng(2), 160).halves())
    assert len(halves) == 35
    assert {first.count + second.count for first, second in halves} == {160}


def test_the_report_finds_the_nominal_rate_where_the_test_keeps_it() -> None:
    rng = np.random.default_rng(3)
    found = try_on([day(rng, 200) for _ in range(200)], SPREAD, SETTINGS, 2_000)
    five = found.rates[0]
    assert (found.cohort_days, found.too_small, found.tests) == (200, 0, 2_000)
    assert (five.nominal, five.resolvable, five.kept) == (0.05, True, True)
    assert 0.025 < five.rate < 0.1


def test_the_report_shows_a_test_that_cries_wolf() -> None:
    """With a spread that is believed half as wide as it is, every second day alarms, and the report says so."""
    rng = np.random.default_rng(4)
    days = [day(rng, 200, lift=0.6) for _ in range(200)]
    five = try_on(days, SPREAD, SETTINGS, 2_000).rates[0]
    assert five.rate > 0.2
    assert not five.kept


def test_days_too_small_to_halve_are_counted_apart() -> None:
    found = try_on([day(np.random.default_rng(5), 64)], SPREAD, SETTINGS, 100)
    assert (found.cohort_days, found.too_small, found.tests) == (0, 1, 0)
    assert not found.rates[0].resolvable


def test_a_rate_too_rare_to_count_is_not_called_known() -> None:
    rare = Rate(2.3e-4, 0.0, 0.0, cohort_days=700)
    assert (rare.resolvable, rare.kept) == (False, True)
    assert not Rate(2.3e-4, 0.05, 0.01, cohort_days=700).kept
    assert not Rate(0.05, 0.0, 0.0, cohort_days=700).kept


def test_power_grows_with_devices_and_size_and_is_the_simulated_one() -> None:
    table = [power(0.5, devices, SPREAD, SETTINGS) for devices in (60, 200, 1_000)]
    assert table == sorted(table)
    assert table[-1] > 0.999
    assert power(0.25, 200, SPREAD, SETTINGS) < power(1.0, 200, SPREAD, SETTINGS)
    rng, hits = np.random.default_rng(6), 0
    for _ in range(400):
        gap = rng.normal(scale=np.sqrt(0.5 * 1.5 / 100), size=SUBSPACE) + 0.5 / np.sqrt(SUBSPACE)
        hits += gap @ gap / (0.5 * 1.5 / 100) > 62.6  # chi-square, 28 degrees of freedom, tail 1.9e-4
    assert power(0.5, 100, Spread(0.5 * np.eye(SUBSPACE), 100_000), SETTINGS) == pytest.approx(hits / 400, abs=0.08)


@pytest.fixture
def empty_tables(platform: Settings) -> None:
    names = "observers, device_days, rejected, cohort_days, cohort_references, evaluations, alarms, calibrations"
    with transaction() as session:
        session.execute(text(f"TRUNCATE {', '.join(f'drift.{name.strip()}' for name in names.split(','))}, kit.outbox"))


def test_every_complete_week_gets_one_report(empty_tables: None) -> None:
    with transaction() as session:
        ingest.register_observer(session, observer(), noon(FIRST))
    for one in range(FIRST, FIRST + 7):
        for cohort in COHORTS:
            take(fleet_day(cohort, one, 130 if one == FIRST + 3 else 80), noon(one))
        evaluate(noon(one + 1))
    with transaction() as session:
        assert calibrate.report_week(session, noon(FIRST + 6), SETTINGS) is None
        report = calibrate.report_week(session, noon(FIRST + 8), SETTINGS)
        assert report is not None
        assert (report.week, report.first_day, report.embedding_id) == (WEEK, FIRST, "e1")
        assert report.cohort_days + report.too_small == 14
        assert report.observed.judged == 10
        assert report.observed.drifting == 0
        assert calibrate.report_week(session, noon(FIRST + 8), SETTINGS) is None
        stored = session.scalars(select(CalibrationRow)).one()
        assert stored.report["power"][-1] == {"d": 1.0, "devices": 1_000, "power": 1.0}


def test_parts_are_forgotten_once_their_week_has_been_reported(empty_tables: None) -> None:
    with transaction() as session:
        ingest.register_observer(session, observer(), noon(FIRST))
    take(fleet_day(COHORTS[0], FIRST, 5), noon(FIRST))
    with transaction() as session:
        row = session.scalars(select(CohortDayRow)).one()
        assert row.shards is not None
        assert sum(part.count for part in Shards.from_bytes(row.shards).parts) == 5
        ingest.sweep(session, noon(FIRST + 10))
        session.refresh(row)
        assert row.shards is not None
        ingest.sweep(session, noon(FIRST + 30))
        session.refresh(row)
        assert row.shards is None
