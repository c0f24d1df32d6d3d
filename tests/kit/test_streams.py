"""Consumers take every message, also those of a consumer that died."""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.kit import streams
from services.kit.settings import Settings

STREAM, GROUP = "test.stream", "readers"


@pytest.fixture(autouse=True)
def _empty(platform: Settings) -> None:
    streams.connection().flushall()


def fail(_: streams.StreamMessage) -> None:
    raise RuntimeError("the consumer died")


def read() -> list[str]:
    seen: list[str] = []
    streams.consume(STREAM, GROUP, lambda message: seen.append(message.text("n")))
    return seen


def publish(*numbers: int) -> None:
    for number in numbers:
        streams.publish(STREAM, {"n": str(number)})


def test_messages_come_in_order_and_once() -> None:
    publish(1, 2, 3)
    assert read() == ["1", "2", "3"]
    assert read() == []


def test_a_group_sees_what_was_published_before_it_existed() -> None:
    publish(1)
    assert read() == ["1"]


def test_a_message_of_a_dead_consumer_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    publish(1)
    assert streams.consume(STREAM, GROUP, fail) == 0
    assert read() == []
    monkeypatch.setattr(streams, "STREAM", replace(streams.STREAM, claim_after_s=0.0))
    assert read() == ["1"]
    assert streams.lag(STREAM, GROUP) == 0


def test_a_message_that_always_fails_is_put_aside_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "STREAM", replace(streams.STREAM, claim_after_s=0.0, deliveries=3))
    publish(1)
    for _ in range(4):
        streams.consume(STREAM, GROUP, fail)
    dead = streams.connection().xrange(f"{STREAM}.dead")
    assert dead[0][1][b"dead_reason"] == b"RuntimeError: the consumer died"
    assert streams.lag(STREAM, GROUP) == 0


def test_lag_counts_what_waits_and_what_is_in_hand() -> None:
    publish(1, 2, 3)
    assert streams.lag(STREAM, GROUP) == 3
    streams.consume(STREAM, GROUP, fail, batch=1)
    assert streams.lag(STREAM, GROUP) == 3


def test_trim_removes_nothing_that_a_group_has_not_finished() -> None:
    publish(*range(500))
    assert streams.trim(STREAM, {GROUP}) == 0
    streams.consume(STREAM, GROUP, lambda _: None, batch=400)
    assert 0 < streams.trim(STREAM, {GROUP}) < 400
    assert len(read()) == 100


def test_the_mark_remembers_the_highest_number_until_redis_is_wiped() -> None:
    streams.publish(STREAM, {"n": "1"}, mark=7)
    streams.publish(STREAM, {"n": "2"}, mark=5)
    assert streams.mark_of(STREAM) == 7
    streams.connection().flushall()
    assert streams.mark_of(STREAM) == 0
