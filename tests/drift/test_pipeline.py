"""From reports to alarms on a real database."""

from __future__ import annotations

import numpy as np
import pytest
from sqlalchemy import func, select, text

from contracts.clock import SECONDS_PER_DAY
from services.drift import ingest, queries, service
from services.drift.limits import DriftSettings
from services.drift.models import Alarm, CohortDayRow, DeviceDay, Evaluation, ReferenceRow, Rejected
from services.kit.database import transaction
from services.kit.models import OutboxRow
from services.kit.settings import Settings
from tests.drift.reports import fleet_day, observer, one_report

SETTINGS = DriftSettings()
FIRST = 20_000
COHORTS = ("npu-4t/mobile", "npu-4t/office", "npu-2t/office")
DEVICES = 70


@pytest.fixture(autouse=True)
def empty_tables(platform: Settings) -> None:
    """Each test begins with an empty service."""
    names = ("observers", "device_days", "rejected", "cohort_days", "cohort_references", "evaluations", "alarms")
    tables = ", ".join(f"drift.{name}" for name in names)
    with transaction() as session:
        session.execute(text(f"TRUNCATE {tables}, kit.outbox"))


def noon(day: int) -> float:
    return (day + 0.5) * SECONDS_PER_DAY


def register(embedding_id: str = "e1") -> None:
    with transaction() as session:
        ingest.register_observer(session, observer(embedding_id), noon(FIRST))


def take(reports: list[bytes], now: float) -> None:
    with transaction() as session:
        for report in reports:
            ingest.take(session, report, now)
    service.fold_waiting()


def evaluate(now: float) -> service.EvaluationRun:
    with transaction() as session:
        return service.evaluate_pending(session, now, SETTINGS)


def live_days(days: int, drifting_from: int, shift: float = 0.4) -> list[service.EvaluationRun]:
    """Let the fleet report day after day; the mobile cohort drifts from `drifting_from` on."""
    runs = []
    for day in range(FIRST, FIRST + days):
        for cohort in COHORTS:
            moved = shift if cohort == COHORTS[0] and day >= FIRST + drifting_from else 0.0
            take(fleet_day(cohort, day, DEVICES, moved), noon(day))
        runs.append(evaluate(noon(day + 1)))
    return runs


def states(cohort: str) -> list[str]:
    with transaction() as session:
        rows = session.scalars(select(Evaluation).where(Evaluation.cohort == cohort).order_by(Evaluation.day))
        return [row.state for row in rows]


def count(model: type) -> int:
    with transaction() as session:
        return session.scalar(select(func.count()).select_from(model)) or 0


def test_the_changed_cohort_alarms_on_its_second_day_and_the_others_never_do() -> None:
    register()
    runs = live_days(days=6, drifting_from=4)
    assert [len(run.alarms) for run in runs] == [0, 0, 0, 0, 0, 1]
    assert states(COHORTS[0]) == ["reference", "reference", "stable", "stable", "severe", "severe"]
    assert states(COHORTS[1])[2:] == ["stable"] * 4
    with transaction() as session:
        alarm = session.scalars(select(Alarm)).one()
        assert alarm.cohorts == [COHORTS[0]]
        assert alarm.days == [FIRST + 4, FIRST + 5]
        assert alarm.z > 3.5
        assert alarm.d == pytest.approx(0.4 * np.sqrt(28), rel=0.2)
        assert alarm.action == "pending"
        message = session.scalars(select(OutboxRow)).one()
        assert (message.topic, message.key) == ("drift.alarm", alarm.id)


def test_judging_again_changes_nothing() -> None:
    register()
    live_days(days=4, drifting_from=2)
    before = (count(Evaluation), count(Alarm), count(OutboxRow), count(ReferenceRow))
    assert evaluate(noon(FIRST + 4)) == service.EvaluationRun((), ())
    assert (count(Evaluation), count(Alarm), count(OutboxRow), count(ReferenceRow)) == before


def test_a_day_is_judged_after_its_grace_and_again_when_late_reports_arrive() -> None:
    register()
    reports = fleet_day(COHORTS[0], FIRST, DEVICES)
    take(reports[:60], noon(FIRST))
    midnight = (FIRST + 1) * SECONDS_PER_DAY
    assert evaluate(midnight + 5 * 3600).days == ()
    assert evaluate(midnight + 7 * 3600).days == (("e1", FIRST),)
    take(reports[60:], midnight + 8 * 3600)
    assert evaluate(midnight + 9 * 3600).days == (("e1", FIRST),)
    with transaction() as session:
        assert session.scalars(select(Evaluation)).one().devices == DEVICES


def test_a_report_delivered_twice_counts_once() -> None:
    register()
    reports = fleet_day(COHORTS[0], FIRST, 5)
    take(reports, noon(FIRST))
    take(reports, noon(FIRST))
    with transaction() as session:
        row = session.scalars(select(CohortDayRow)).one()
        assert (row.devices, row.frames) == (5, 5 * 400)


def test_an_embedding_that_nobody_registered_waits_and_is_folded_when_somebody_does() -> None:
    take(fleet_day(COHORTS[0], FIRST, 5, embedding_id="e2"), noon(FIRST))
    assert count(CohortDayRow) == 0
    register("e2")
    assert service.fold_waiting() == 5
    assert count(CohortDayRow) == 1


def test_an_embedding_that_nobody_registers_is_counted_apart_after_a_week() -> None:
    take(fleet_day(COHORTS[0], FIRST, 3, embedding_id="e2"), noon(FIRST))
    with transaction() as session:
        assert ingest.sweep(session, noon(FIRST + 8)) == 3
    with transaction() as session:
        found = {row.reason: row.reports for row in queries.rejected(session)}
    assert found == {"unknown_embedding": 3}
    register("e2")
    assert service.fold_waiting() == 0


def test_natural_keys_are_forgotten_only_when_a_repeat_would_be_refused_as_late() -> None:
    register()
    take(fleet_day(COHORTS[0], FIRST, 2), noon(FIRST))
    with transaction() as session:
        ingest.sweep(session, noon(FIRST + 10))
    assert count(DeviceDay) == 2
    with transaction() as session:
        ingest.sweep(session, noon(FIRST + 20))
    assert count(DeviceDay) == 0


def test_two_embeddings_are_never_mixed() -> None:
    register("e1")
    register("e2")
    take(fleet_day(COHORTS[0], FIRST, 4) + fleet_day(COHORTS[0], FIRST, 6, embedding_id="e2"), noon(FIRST))
    with transaction() as session:
        rows = session.scalars(select(CohortDayRow).order_by(CohortDayRow.embedding_id)).all()
        assert [(row.embedding_id, row.devices) for row in rows] == [("e1", 4), ("e2", 6)]


def test_bad_reports_are_counted_by_reason_and_lose_no_neighbour() -> None:
    register()
    rng, still = np.random.default_rng(0), np.zeros(28)
    good = fleet_day(COHORTS[0], FIRST, 3)
    damaged = bytearray(fleet_day(COHORTS[0], FIRST + 1, 1)[0])
    damaged[300] ^= 1
    bad = [
        b"short",
        bytes(damaged),
        one_report(COHORTS[0], FIRST + 2, still, rng),
        one_report(COHORTS[0], FIRST - 9, still, rng),
        one_report(COHORTS[0], FIRST, still, rng, saturated=True),
        one_report(COHORTS[0], FIRST, np.full(28, np.nan), rng),
    ]
    take([good[0], *bad, *good[1:], *bad], noon(FIRST))
    with transaction() as session:
        found = {row.reason: row.reports for row in queries.rejected(session)}
        assert session.scalars(select(CohortDayRow)).one().devices == 3
    assert found == {"size": 1, "checksum": 1, "future": 1, "late": 1, "saturated": 1, "not_finite": 1}
    assert count(Rejected) == 6


def test_a_cohort_of_one_device_is_insufficient_and_leaves_the_others_alone() -> None:
    register()
    for day in (FIRST, FIRST + 1, FIRST + 2):
        for cohort in COHORTS:
            take(fleet_day(cohort, day, DEVICES), noon(day))
        take(fleet_day("rare/one", day, 1, shift=3.0), noon(day))
        evaluate(noon(day + 1))
    assert states("rare/one") == ["insufficient_data"] * 3
    assert all(states(cohort)[2] == "stable" for cohort in COHORTS)


def test_a_reference_is_frozen_whatever_arrives_later() -> None:
    register()
    live_days(days=3, drifting_from=9)
    with transaction() as session:
        before = {row.cohort: (row.days, row.statistics) for row in session.scalars(select(ReferenceRow))}
    late = [one_report(COHORTS[0], FIRST, np.full(28, 5.0), np.random.default_rng(i)) for i in range(5)]
    take(late, noon(FIRST + 3))
    evaluate(noon(FIRST + 4))
    with transaction() as session:
        after = {row.cohort: (row.days, row.statistics) for row in session.scalars(select(ReferenceRow))}
    assert before == after
    assert before[COHORTS[0]][0] == [FIRST, FIRST + 1]


def test_reports_that_come_over_the_whole_next_day_are_all_in_the_reference() -> None:
    register()
    for day in range(FIRST, FIRST + 3):
        for cohort in COHORTS:
            take(fleet_day(cohort, day, DEVICES)[:40], noon(day))
        evaluate((day + 1.3) * SECONDS_PER_DAY)
        for cohort in COHORTS:
            take(fleet_day(cohort, day, DEVICES)[40:], (day + 1.9) * SECONDS_PER_DAY)
        evaluate((day + 1.95) * SECONDS_PER_DAY)
    assert states(COHORTS[0]) == ["reference", "reference", "stable"]
    with transaction() as session:
        assert {row.devices for row in session.scalars(select(ReferenceRow))} == {2 * DEVICES}
