"""Outbox: messages that leave exactly when, and only if, the transaction that wrote them committed.

`enqueue` writes a row in the caller's transaction; `(topic, key)` is unique for ever, so a repeated cause sends
nothing twice. `dispatch` hands waiting rows to the topic's handler, at least once: a handler is idempotent. A failing
handler is tried again with a growing pause and never dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from sqlalchemy import func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from services.kit.database import transaction
from services.kit.limits import OUTBOX
from services.kit.models import OutboxRow
from services.kit.tracing import ongoing_traceparent, span, start_trace

Handler = Callable[[str, dict[str, Any]], None]  # Any: JSON

log = structlog.get_logger(__name__)
_handlers: dict[str, Handler] = {}


def enqueue(session: Session, topic: str, key: str, payload: dict[str, Any]) -> bool:
    """Add a message to this transaction; False when `(topic, key)` was already sent or waits."""
    values = {"topic": topic, "key": key, "payload": payload, "traceparent": ongoing_traceparent()}
    row = insert(OutboxRow).values(values).on_conflict_do_nothing()
    return session.execute(row.returning(OutboxRow.id)).first() is not None


def handler(topic: str) -> Callable[[Handler], Handler]:
    """`@handler("drift.alarm") def send(key, payload)`: what delivers the messages of a topic."""

    def register(function: Handler) -> Handler:
        if _handlers.setdefault(topic, function) is not function:
            raise ValueError(f"topic {topic!r} already has a handler: {_handlers[topic].__qualname__}")
        return function

    return register


def dispatch(topics: tuple[str, ...] | None = None) -> int:
    """Deliver what waits, oldest first, one bounded batch; returns how many messages were delivered."""
    delivered = 0
    for _ in range(OUTBOX.batch):
        outcome = _deliver_next(topics)
        if outcome is None:
            break
        delivered += outcome
    return delivered


def _deliver_next(topics: tuple[str, ...] | None) -> int | None:
    """Deliver one message in one transaction: 1 delivered, 0 failed and put off, None nothing waits."""
    with transaction() as session:
        row = session.scalars(_waiting(topics)).first()
        if row is None:
            return None
        start_trace(row.traceparent)
        try:
            with span(f"outbox {row.topic}", "consumer", edgeloop__attempts=row.attempts):
                _handlers[row.topic](row.key, row.payload)
        except Exception as error:  # whatever a handler raises is kept beside the row and tried again
            _put_off(session, row, error)
            return 0
        row.done_at = func.now()
        return 1


def _waiting(topics: tuple[str, ...] | None) -> Any:  # Any: SQLAlchemy's Select of one entity
    known = [topic for topic in _handlers if topics is None or topic in topics]
    return (
        select(OutboxRow)
        .where(OutboxRow.done_at.is_(None), OutboxRow.available_at <= func.now(), OutboxRow.topic.in_(known))
        .order_by(OutboxRow.available_at, OutboxRow.id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )


def _put_off(session: Session, row: OutboxRow, error: Exception) -> None:
    row.attempts += 1
    row.last_error = f"{type(error).__name__}: {error}"[:500]
    pause = min(OUTBOX.longest_pause_s, OUTBOX.first_pause_s * 2 ** min(row.attempts - 1, 16))
    row.available_at = func.now() + func.make_interval(0, 0, 0, 0, 0, 0, pause)
    seen = {"topic": row.topic, "key": row.key, "attempts": row.attempts, "pause_s": pause}
    log.warning("outbox_put_off", error=row.last_error, **seen)
    session.flush()


def backlog(session: Session) -> dict[str, int]:
    """How many messages wait, by topic."""
    counts = select(OutboxRow.topic, func.count()).where(OutboxRow.done_at.is_(None)).group_by(OutboxRow.topic)
    return {str(topic): int(count) for topic, count in session.execute(counts)}


def forget_done(session: Session, topics: tuple[str, ...], older_than_days: int) -> int:
    """Delete delivered rows of topics whose keys need not stay unique for ever; returns how many."""
    statement = text(
        "DELETE FROM kit.outbox WHERE topic = ANY(:topics) AND done_at < now() - make_interval(days => :days)"
    )
    result: Any = session.execute(statement, {"topics": list(topics), "days": older_than_days})  # Any: CursorResult
    return int(result.rowcount)
