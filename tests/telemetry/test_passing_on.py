"""From an accepted message to the stream, also when Redis forgets."""

from __future__ import annotations

import pytest

from services.kit import streams
from services.kit.database import transaction
from services.kit.outbox import dispatch
from services.kit.settings import Settings
from services.telemetry import service
from services.telemetry.tasks import mend_streams, tidy
from tests.support.messages import report_bytes

STREAM = service.REPORTS


@pytest.fixture(autouse=True)
def _empty_redis(platform: Settings) -> None:
    streams.connection().flushall()


def accept(*bodies: bytes) -> None:
    for body in bodies:
        with transaction() as session:
            service.accept_report(session, body)


def read(group: str) -> list[bytes]:
    seen: list[bytes] = []
    streams.consume(STREAM, group, lambda message: seen.append(message.fields["body"]))
    return seen


def test_an_accepted_report_reaches_its_stream_as_it_was_sent() -> None:
    body = report_bytes()
    accept(body)
    dispatch()
    assert read("drift")[-1] == body


def test_an_aborted_transaction_leaves_nothing_to_pass_on() -> None:
    body = report_bytes()

    def die_before_the_commit() -> None:
        with transaction() as session:
            service.accept_report(session, body)
            raise RuntimeError("the process died")

    with pytest.raises(RuntimeError):
        die_before_the_commit()
    dispatch()
    assert body not in read("drift")


def test_reports_that_redis_lost_are_published_again() -> None:
    first, second = report_bytes(), report_bytes()
    accept(first, second)
    dispatch()
    streams.connection().flushall()
    assert mend_streams() >= 2
    assert read("drift")[-2:] == [first, second]
    assert mend_streams() == 0


def test_tidy_keeps_what_a_reader_has_not_finished() -> None:
    accept(report_bytes())
    dispatch()
    tidy()
    assert streams.connection().xlen(STREAM) == 1
    read("drift")
    accept(report_bytes())
    dispatch()
    tidy()
    assert len(read("drift")) == 1
