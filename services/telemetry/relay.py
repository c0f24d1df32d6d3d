"""From the tables to the streams: every accepted row once or more, in order, never before it is durable.

Two numbers say how far things are, both are row ids:

published   kept in Redis, changed in one step with the entries it counts, so both are lost together or not at all
finished    kept in PostgreSQL, the durable mark: the reader has committed everything up to here

`publish` appends what lies between `published` and the highest settled id. After Redis lost data it begins again at
whatever Redis still knows, at the earliest at `finished`. `cut` moves the durable mark first and then removes entries
behind it, so an entry is never the only trace of a row. Readers tell repeats by the natural keys.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import redis
import structlog
from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from contracts.statistics.drf1_headers import header_of
from services.kit import streams
from services.kit.database import transaction, try_lock
from services.telemetry import locks
from services.telemetry.limits import LIMITS
from services.telemetry.models import Report, Segment, StreamMark


@dataclass(frozen=True)
class Relay:
    """One stream: the table it follows, the group that reads it, and how many entries may wait in Redis."""

    stream: str
    group: str
    table: type[Any]  # Any: SQLAlchemy cannot select a union
    most: int

    @property
    def name(self) -> str:
        """The table's name."""
        return str(self.table.__tablename__)


REPORTS = Relay("telemetry.reports", "drift", Report, LIMITS.reports_in_stream)
SEGMENTS = Relay("telemetry.segments", "curation", Segment, LIMITS.segments_in_stream)
RELAYS = (REPORTS, SEGMENTS)

log = structlog.get_logger(__name__)


def publish(relay: Relay) -> int:
    """Append what waits, batch by batch, for a bounded time; returns how many rows."""
    total, end = 0, time.monotonic() + LIMITS.publish_for_s
    while time.monotonic() < end:
        with transaction() as session:
            if not try_lock(session, f"telemetry.publish.{relay.name}"):
                return total
            published = _publish_batch(session, relay)
        if not published:
            return total
        total += published
    return total


def cut(relay: Relay) -> int:
    """Move the durable mark to what the reader has finished, then remove entries behind it; returns the mark."""
    found = streams.finished(relay.stream, relay.group)
    if found is None:
        return finished(relay)
    row = insert(StreamMark).values(stream=relay.stream, finished=int(found.fields["id"]))
    highest = func.greatest(StreamMark.finished, row.excluded.finished)
    moved = row.on_conflict_do_update(index_elements=[StreamMark.stream], set_={"finished": highest})
    with transaction() as session:
        mark = int(session.execute(moved.returning(StreamMark.finished)).scalar_one())
    streams.trim_behind(relay.stream, found.id)
    return mark


def finished(relay: Relay) -> int:
    """The durable mark."""
    with transaction() as session:
        return _finished(session, relay)


def settled(relay: Relay) -> int:
    """The highest id below which nothing can appear any more; 0 while the table is empty."""
    with transaction() as session:
        locks.alone(session, relay.name)
        return int(session.scalar(select(func.max(relay.table.id))) or 0)


@dataclass(frozen=True)
class Lag:
    """How far a stream's reader is behind: rows that wait, and the seconds that the oldest of them waits.

    `waiting` counts ids, so a repeated message that used one up counts until the mark has passed it.
    """

    stream: str
    accepted: int
    published: int
    finished: int
    waiting: int
    oldest_s: float


def lag(session: Session, relay: Relay) -> Lag:
    """The lag now; `published` is -1 while Redis does not answer."""
    mark = _finished(session, relay)
    newest = int(session.scalar(select(func.max(relay.table.id))) or 0)
    first = select(relay.table.accepted_at).where(relay.table.id > mark).order_by(relay.table.id).limit(1)
    age = session.scalar(select(func.extract("epoch", func.now() - first.scalar_subquery())))
    return Lag(relay.stream, newest, _published(relay), mark, max(0, newest - mark), round(float(age or 0.0), 3))


def _published(relay: Relay) -> int:
    try:
        return streams.mark_of(relay.stream)
    except redis.RedisError:
        return -1


def _publish_batch(session: Session, relay: Relay) -> int:
    if streams.length(relay.stream) >= relay.most:
        log.warning("stream_full", stream=relay.stream, most=relay.most)
        return 0
    published, end = streams.mark_of(relay.stream), settled(relay)
    start = _start(session, relay, published, end)
    rows = _rows(session, relay, start, end)
    if not rows:
        return 0
    entries = [_fields(row) for row in rows]
    if not streams.publish_many(relay.stream, entries, expected=published, mark=rows[-1].id):
        log.warning("stream_moved", stream=relay.stream, expected=published)
        return 0
    return len(rows)


def _start(session: Session, relay: Relay, published: int, end: int) -> int:
    """Where to go on: after what Redis has, unless it knows less than is finished, or more than there is."""
    mark = _finished(session, relay)
    if mark <= published <= end:
        return published
    log.warning("stream_mended", stream=relay.stream, published=published, finished=mark, settled=end)
    return min(mark, end)


def _finished(session: Session, relay: Relay) -> int:
    return int(session.scalar(select(StreamMark.finished).where(StreamMark.stream == relay.stream)) or 0)


def _rows(session: Session, relay: Relay, start: int, end: int) -> Sequence[Any]:
    """The next rows, as many as a batch may have and its bytes allow; always at least one."""
    table = relay.table
    window = select(table).where(table.id > start, table.id <= end).order_by(table.id).limit(LIMITS.publish_batch)
    taken: list[Any] = []
    size = 0
    for row in session.scalars(window.execution_options(yield_per=100)):
        size += len(row.body)
        if taken and size > LIMITS.publish_bytes:
            break
        taken.append(row)
    return taken


def _fields(row: Report | Segment) -> dict[str, str | bytes]:
    """`body` is what the device sent: DRF1 bytes, or the segment's JSON."""
    if isinstance(row, Segment):
        return {"id": str(row.id), "cohort": row.cohort, "embedding_id": row.embedding_id, "body": row.body}
    header = header_of(row.body)
    cohort, embedding = (header.cohort, header.embedding_id) if header else ("", "")
    return {"id": str(row.id), "cohort": cohort, "embedding_id": embedding, "body": row.body}
