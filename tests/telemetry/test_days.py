"""Days come and go as whole tables."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from sqlalchemy import func, select, text

from contracts.clock import SECONDS_PER_DAY, FileClock, day_of
from contracts.wire import Accepted
from services.kit import streams
from services.kit.database import transaction
from services.kit.settings import Settings
from services.telemetry import partitions, relay
from services.telemetry.intake import Intake
from services.telemetry.limits import LIMITS
from services.telemetry.models import Report
from services.telemetry.store import PostgresStore
from services.telemetry.tasks import publish_reports, tidy, turn_days
from tests.support.messages import report_bytes

TODAY = day_of(time.time())


@pytest.fixture(autouse=True)
def clock(platform: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clock that the test sets."""
    streams.connection().flushall()
    for kind in (partitions.REPORTS, partitions.SEGMENTS):
        partitions.drop_before(kind, 10**9, 10**18)
    with transaction() as session:
        session.execute(text("TRUNCATE telemetry.stream_marks"))
    path = tmp_path / "clock.json"
    monkeypatch.setenv("EDGELOOP_CLOCK_FILE", str(path))
    set_day(path, TODAY)
    return path


def set_day(path: Path, day: int) -> None:
    path.write_text(json.dumps({"real": time.time(), "sim": (day + 0.5) * SECONDS_PER_DAY, "factor": 1.0}))


def accept(clock: Path, *days: int) -> list[object]:
    intake = Intake(PostgresStore(), FileClock(clock))
    return list(intake.take_reports([report_bytes(day=day) for day in days]))


def present() -> list[int]:
    with transaction() as session:
        return partitions.present(session, partitions.REPORTS)


def count() -> int:
    with transaction() as session:
        return session.scalar(select(func.count()).select_from(Report)) or 0


def take_over() -> None:
    publish_reports()
    streams.consume(relay.REPORTS.stream, relay.REPORTS.group, lambda _: None)
    tidy()


def test_the_days_ahead_are_made_before_they_are_needed() -> None:
    turn_days()
    assert present() == list(range(TODAY, TODAY + LIMITS.days_made_ahead + 1))


def test_a_day_without_a_table_gets_one_when_its_first_report_comes(clock: Path) -> None:
    assert accept(clock, TODAY - 3) == [Accepted()]
    assert present() == [TODAY - 3]


def test_a_day_is_dropped_as_a_whole_when_it_was_kept_long_enough(clock: Path) -> None:
    accept(clock, TODAY - 1, TODAY, TODAY)
    take_over()
    set_day(clock, TODAY + LIMITS.kept_days)
    assert turn_days() == [TODAY - 1]
    assert count() == 2


def test_a_day_that_its_reader_does_not_have_yet_is_kept_however_old_it_is(clock: Path) -> None:
    accept(clock, TODAY)
    set_day(clock, TODAY + 100)
    assert turn_days() == []
    take_over()
    assert turn_days() == [TODAY]


def test_a_report_of_a_dropped_day_is_refused_as_late_so_its_key_may_be_forgotten(clock: Path) -> None:
    assert LIMITS.late_days < LIMITS.kept_days
    assert LIMITS.segment_late_days < LIMITS.kept_days
    accept(clock, TODAY)
    take_over()
    set_day(clock, TODAY + LIMITS.kept_days + 1)
    turn_days()
    (answer,) = accept(clock, TODAY)
    assert str(answer).startswith("late: ")


def test_a_hostile_fleet_cannot_make_more_days_than_may_be_told_of(clock: Path) -> None:
    accept(clock, *range(TODAY - 400, TODAY + 400))
    assert len(present()) == LIMITS.late_days + LIMITS.ahead_days + 1


def test_a_report_is_kept_in_its_row_and_not_compressed(clock: Path) -> None:
    """Moving 2 KB of noise out of the row would cost three rows and an index for each report."""
    accept(clock, TODAY)
    with transaction() as session:
        toast = "SELECT pg_relation_size(reltoastrelid) FROM pg_class WHERE oid = CAST(:name AS regclass)"
        assert session.scalar(text(toast), {"name": f"telemetry_days.reports_{TODAY}"}) == 0
        assert session.scalar(text("SELECT pg_column_size(body) FROM telemetry.reports")) >= 1_988
