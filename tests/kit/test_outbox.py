"""Messages leave once, after their transaction, and are never dropped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import select, text

from services.kit import outbox
from services.kit.database import transaction
from services.kit.models import OutboxRow
from services.kit.settings import Settings

TOPIC = "test.outbox"


@pytest.fixture(autouse=True)
def sent(platform: Settings) -> Iterator[list[str]]:
    got: list[str] = []

    @outbox.handler(TOPIC)
    def keep(key: str, payload: dict[str, Any]) -> None:
        if payload.get("broken"):
            raise RuntimeError("the receiver is away")
        got.append(key)

    yield got
    outbox._handlers.pop(TOPIC)
    with transaction() as session:
        session.execute(text("DELETE FROM kit.outbox"))


def put(key: str, **payload: Any) -> bool:
    with transaction() as session:
        return outbox.enqueue(session, TOPIC, key, payload)


def test_a_message_is_delivered_once(sent: list[str]) -> None:
    assert put("a")
    assert outbox.dispatch() == 1
    assert outbox.dispatch() == 0
    assert sent == ["a"]


def test_a_key_that_was_sent_before_is_not_sent_again(sent: list[str]) -> None:
    put("a")
    outbox.dispatch()
    assert not put("a")
    outbox.dispatch()
    assert sent == ["a"]


def test_a_failing_message_does_not_hold_up_the_others(sent: list[str]) -> None:
    put("broken", broken=True)
    put("good")
    assert outbox.dispatch() == 1
    assert sent == ["good"]


def test_a_failing_message_is_kept_with_its_error_and_tried_later() -> None:
    put("broken", broken=True)
    outbox.dispatch()
    with transaction() as session:
        row = session.scalars(select(OutboxRow)).one()
        assert (row.attempts, row.done_at, row.last_error) == (1, None, "RuntimeError: the receiver is away")
        assert row.available_at > row.created_at
        assert outbox.backlog(session) == {TOPIC: 1}


def test_a_topic_without_a_handler_waits() -> None:
    with transaction() as session:
        outbox.enqueue(session, "nobody.listens", "a", {})
    assert outbox.dispatch() == 0
    with transaction() as session:
        assert outbox.backlog(session) == {"nobody.listens": 1}


def test_old_delivered_messages_can_be_forgotten(sent: list[str]) -> None:
    put("old")
    outbox.dispatch()
    with transaction() as session:
        session.execute(text("UPDATE kit.outbox SET done_at = now() - interval '5 days'"))
        assert outbox.forget_done(session, (TOPIC,), 3) == 1
