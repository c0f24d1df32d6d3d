"""From an accepted message to the stream, also when Redis forgets or a writer is slow."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import replace

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from contracts.clock import SystemClock, day_of
from services.kit import streams
from services.kit.database import transaction
from services.kit.settings import Settings
from services.telemetry import locks, relay, tasks
from services.telemetry.intake import Intake
from services.telemetry.relay import REPORTS
from services.telemetry.store import PostgresStore, ReportRow
from services.telemetry.tasks import publish_reports, tidy
from tests.support.bounded import within
from tests.support.messages import report_bytes

STREAM = REPORTS.stream


@pytest.fixture(autouse=True)
def _empty(platform: Settings) -> None:
    streams.connection().flushall()
    with transaction() as session:
        session.execute(text("TRUNCATE telemetry.reports, telemetry.stream_marks"))


def accept(*bodies: bytes) -> None:
    Intake(PostgresStore(), SystemClock()).take_reports(bodies)


def some(count: int) -> list[bytes]:
    return [report_bytes() for _ in range(count)]


def read(batch: int = 100) -> list[bytes]:
    seen: list[bytes] = []
    streams.consume(STREAM, REPORTS.group, lambda message: seen.append(message.fields["body"]), batch)
    return seen


def test_accepted_reports_reach_their_stream_as_they_were_sent() -> None:
    bodies = some(3)
    accept(*bodies)
    assert publish_reports() == 3
    assert sorted(read()) == sorted(bodies)
    assert publish_reports() == 0


def test_an_entry_names_cohort_and_embedding() -> None:
    accept(*some(1))
    publish_reports()
    (entry,) = streams.connection().xrange(STREAM)
    assert (entry[1][b"cohort"], entry[1][b"embedding_id"]) == (b"npu-4t/meeting", b"e1")


def test_nothing_is_passed_on_before_its_commit_and_nothing_is_skipped_after_a_later_one() -> None:
    """The slow writer has the lower id and commits last."""
    body, written, go_on = report_bytes(), threading.Event(), threading.Event()

    def slow_writer() -> None:
        with transaction() as session:
            locks.writing(session, "reports")
            columns = {"day": 20_000, "pseudonym": bytes(16), "body": body}
            session.execute(
                text(
                    "CREATE TABLE IF NOT EXISTS telemetry_days.reports_20000 PARTITION OF "
                    "telemetry.reports FOR VALUES FROM (20000) TO (20001)"
                )
            )
            session.execute(
                text("INSERT INTO telemetry.reports (day, pseudonym, body) VALUES (:day, :pseudonym, :body)"), columns
            )
            written.set()
            assert go_on.wait(20)

    writer = threading.Thread(target=slow_writer, daemon=True)
    writer.start()
    assert written.wait(20)
    publisher = threading.Thread(target=publish_reports, daemon=True)
    publisher.start()
    publisher.join(0.5)
    assert read() == []
    go_on.set()
    writer.join(20)
    publisher.join(20)
    assert not writer.is_alive()
    assert not publisher.is_alive()
    publish_reports()
    assert read() == [body]


def test_a_stuck_writer_holds_the_relay_up_only_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "LIMITS", replace(locks.LIMITS, settle_wait_ms=100))
    accept(*some(1))
    with transaction() as session:
        locks.writing(session, "reports")
        with pytest.raises(Exception, match="lock timeout"):
            publish_reports()
    assert publish_reports() == 1


def test_reports_that_redis_lost_are_published_again_and_those_that_were_finished_are_not() -> None:
    first, second = some(2), some(3)
    accept(*first)
    publish_reports()
    read()
    tidy()
    accept(*second)
    publish_reports()
    streams.connection().flushall()
    assert publish_reports() == 3
    assert sorted(read()) == sorted(second)


def test_finished_reports_that_were_not_yet_noted_as_finished_come_again_rather_than_never() -> None:
    bodies = some(2)
    accept(*bodies)
    publish_reports()
    read()
    streams.connection().flushall()
    publish_reports()
    assert sorted(read()) == sorted(bodies)


def test_a_database_that_was_set_back_behind_redis_loses_nothing() -> None:
    accept(*some(2))
    publish_reports()
    streams.connection().set(f"published:{STREAM}", 10**12)
    late = some(1)
    accept(*late)
    publish_reports()
    assert late[0] in read()


def test_the_stream_is_cut_only_behind_the_durable_mark() -> None:
    accept(*some(500))
    publish_reports()
    read(400)
    assert relay.finished(REPORTS) == 0
    tidy()
    mark = relay.finished(REPORTS)
    assert mark > 0
    kept = [int(fields[b"id"]) for _, fields in streams.connection().xrange(STREAM)]
    assert min(kept) <= mark + 1
    assert len(kept) < 500
    assert len(read()) == 100


def test_the_mark_never_goes_back() -> None:
    accept(*some(3))
    publish_reports()
    read()
    tidy()
    mark = relay.finished(REPORTS)
    streams.connection().flushall()
    accept(*some(1))
    tidy()
    assert relay.finished(REPORTS) == mark


def test_a_full_stream_waits_in_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(REPORTS, most=2)
    accept(*some(2))
    assert relay.publish(small) == 2
    accept(*some(2))
    assert relay.publish(small) == 0
    assert relay.publish(REPORTS) == 2


def test_the_lag_counts_what_the_reader_does_not_have_and_how_long_it_waits() -> None:
    accept(*some(4))
    publish_reports()
    with transaction() as session:
        before = relay.lag(session, REPORTS)
    assert (before.waiting > 0, before.oldest_s > 0, before.published) == (True, True, before.accepted)
    read()
    tidy()
    with transaction() as session:
        after = relay.lag(session, REPORTS)
    assert (after.waiting, after.oldest_s, after.finished) == (0, 0.0, after.accepted)


def test_a_reader_that_is_far_behind_is_said_aloud(monkeypatch: pytest.MonkeyPatch) -> None:
    accept(*some(2))
    with capture_logs() as quiet:
        tidy()
    monkeypatch.setattr(tasks, "LIMITS", replace(tasks.LIMITS, lag_alarm_s=0.0))
    with capture_logs() as loud:
        tidy()
    assert [line for line in quiet if line["event"] == "stream_behind"] == []
    (alarm,) = [line for line in loud if line["event"] == "stream_behind"]
    assert (alarm["log_level"], alarm["stream"]) == ("error", STREAM)


def test_two_schedulers_publish_nothing_twice() -> None:
    accept(*some(300))
    within(30, *[publish_reports] * 4)
    ids = [fields[b"id"] for _, fields in streams.connection().xrange(STREAM)]
    assert len(ids) == len(set(ids)) == 300


@pytest.fixture
def _no_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    def down() -> None:
        raise streams.redis.ConnectionError("Redis is down")

    monkeypatch.setattr(streams, "connection", down)


@pytest.mark.usefixtures("_no_redis")
def test_the_lag_is_told_while_redis_is_down() -> None:
    accept(*some(1))
    with transaction() as session:
        assert relay.lag(session, REPORTS).published == -1


def test_two_batches_with_the_same_keys_in_other_orders_do_not_deadlock() -> None:
    today, rounds, size = day_of(time.time()), 5, 2_000
    start = threading.Barrier(2)

    def keep(backwards: bool) -> int:
        store, new = PostgresStore(), 0
        for turn in range(rounds):
            keys = range(turn * size, (turn + 1) * size)
            rows = [ReportRow(today, number.to_bytes(16, "big"), b"x") for number in keys]
            start.wait(10)
            try:
                new += len(store.reports(rows[::-1] if backwards else rows, Counter(), today))
            except BaseException:
                start.abort()  # or the other one would wait for it
                raise
        return new

    assert sum(within(30, lambda: keep(False), lambda: keep(True))) == rounds * size
