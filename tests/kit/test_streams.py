"""Consumers take every message, also those of a consumer that died."""

from __future__ import annotations

from collections.abc import Sequence
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


def publish_two(expected: int, mark: int) -> bool:
    return streams.publish_many(STREAM, [{"n": "1"}, {"n": "2"}], expected=expected, mark=mark)


def test_the_mark_moves_with_the_messages_until_redis_is_wiped() -> None:
    assert publish_two(0, 7)
    assert streams.mark_of(STREAM) == 7
    assert read() == ["1", "2"]
    streams.connection().flushall()
    assert streams.mark_of(STREAM) == 0


def test_a_publisher_that_was_overtaken_adds_nothing() -> None:
    assert publish_two(0, 7)
    assert not publish_two(0, 7)
    assert streams.length(STREAM) == 2


def read_many(batch: int = 100) -> list[list[str]]:
    seen: list[list[str]] = []
    streams.consume_many(STREAM, GROUP, lambda found: seen.append([each.text("n") for each in found]), batch)
    return seen


def test_many_messages_are_handed_over_together_and_once() -> None:
    publish(1, 2, 3)
    assert read_many() == [["1", "2", "3"]]
    assert read_many() == []
    assert streams.lag(STREAM, GROUP) == 0


def test_a_bad_message_in_a_batch_costs_its_neighbours_nothing() -> None:
    publish(1, 2, 3)
    taken: list[str] = []

    def take(found: Sequence[streams.StreamMessage]) -> None:
        numbers = [each.text("n") for each in found]
        if "2" in numbers:
            raise RuntimeError("this one is bad")
        taken.extend(numbers)

    assert streams.consume_many(STREAM, GROUP, take) == 2
    assert taken == ["1", "3"]
    assert streams.lag(STREAM, GROUP) == 1


def finished() -> str | None:
    found = streams.finished(STREAM, GROUP)
    return found.text("n") if found else None


def test_the_last_finished_message_lies_before_the_first_one_in_hand() -> None:
    publish(1, 2, 3, 4)
    assert finished() is None
    streams.consume(STREAM, GROUP, lambda _: None, batch=2)
    assert finished() == "2"
    streams.consume(STREAM, GROUP, fail, batch=1)
    streams.consume(STREAM, GROUP, lambda _: None)
    assert finished() == "2"


def test_pending_messages_that_were_trimmed_from_outside_do_not_stay_pending_for_ever() -> None:
    publish(1, 2)
    streams.consume(STREAM, GROUP, fail)
    streams.connection().xtrim(STREAM, maxlen=0, approximate=False)
    assert finished() is None
    publish(3)
    assert read() == ["3"]
    assert finished() == "3"
    assert streams.lag(STREAM, GROUP) == 0
