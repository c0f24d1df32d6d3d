"""Telemetry's background work: publish what was accepted, mend streams after Redis lost data, keep them short."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import structlog
from sqlalchemy import select
from sqlalchemy.orm import Session

from services.kit import streams
from services.kit.database import transaction, try_lock
from services.kit.models import OutboxRow
from services.kit.outbox import forget_done, handler
from services.kit.tasks import beat, task
from services.telemetry.limits import LIMITS
from services.telemetry.models import Report, Segment
from services.telemetry.service import REPORTS, SEGMENTS

READERS = {REPORTS: "drift", SEGMENTS: "curation"}
"""The consumer group of each stream; its entries are removed only after that group finished them."""

TABLES: dict[str, type[Any]] = {REPORTS: Report, SEGMENTS: Segment}  # Any: SQLAlchemy cannot select a union

log = structlog.get_logger(__name__)


@handler(REPORTS)
def publish_report(_key: str, payload: dict[str, Any]) -> None:  # Any: JSON
    """Append a stored report to its stream."""
    _publish(REPORTS, int(payload["id"]))


@handler(SEGMENTS)
def publish_segment(_key: str, payload: dict[str, Any]) -> None:  # Any: JSON
    """Append a stored segment to its stream."""
    _publish(SEGMENTS, int(payload["id"]))


@beat("telemetry.mend", seconds=15)
@task(queue="telemetry", time_limit=120)
def mend_streams() -> int:
    """Publish again what Redis forgot (killed, wiped); readers tell duplicates by the natural keys."""
    with transaction() as session:
        if not try_lock(session, "telemetry.mend"):
            return 0
        return sum(_mend(session, stream) for stream in TABLES)


@beat("telemetry.tidy", seconds=60)
@task(queue="telemetry", time_limit=60)
def tidy() -> None:
    """Cut the streams behind their readers, and forget delivered outbox rows (the tables keep the natural keys)."""
    for stream, group in READERS.items():
        streams.trim(stream, {group})
    with transaction() as session:
        forget_done(session, tuple(TABLES), LIMITS.outbox_days)


def _publish(stream: str, row_id: int) -> None:
    with transaction() as session:
        row: Report | Segment | None = session.get(TABLES[stream], row_id)
        if row is None:
            log.warning("row_gone", stream=stream, id=row_id)
            return
        streams.publish(stream, _fields(row), mark=row_id)


def _fields(row: Report | Segment) -> dict[str, str | bytes]:
    """`body` is what the device sent: DRF1 bytes, or the segment's JSON."""
    return {"id": str(row.id), "cohort": row.cohort, "embedding_id": row.embedding_id, "body": row.body}


def _mend(session: Session, stream: str) -> int:
    """Compare the highest id that Redis knows with the highest one delivered; publish the difference again."""
    table = TABLES[stream]
    known = streams.mark_of(stream)
    delivered = _last_delivered(session, stream)
    if known >= delivered:
        return 0
    first = max(0, known - LIMITS.republish_margin) if known else 0
    batch = LIMITS.republish_margin + LIMITS.republish_batch
    lost = select(table).where(table.id > first, table.id <= delivered).order_by(table.id).limit(batch)
    rows: Sequence[Report | Segment] = session.scalars(lost).all()
    for row in rows:
        streams.publish(stream, _fields(row), mark=row.id)
    log.warning("stream_mended", stream=stream, known=known, delivered=delivered, published=len(rows))
    return len(rows)


def _last_delivered(session: Session, stream: str) -> int:
    """Row id of the newest message of this stream that the outbox delivered; 0 when there is none."""
    delivered = select(OutboxRow.payload).where(OutboxRow.topic == stream, OutboxRow.done_at.is_not(None))
    payload = session.scalar(delivered.order_by(OutboxRow.id.desc()).limit(1))
    return int(payload["id"]) if payload else 0
