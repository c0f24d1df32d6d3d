"""Accept a message once, durably, and leave the rest to the outbox.

Invariant: row and outbox message are written in one transaction, and the answer follows its commit. So whatever was
acknowledged is in the database, and reaches its stream sooner or later, whichever process dies in between.
"""

from __future__ import annotations

from pydantic import TypeAdapter, ValidationError
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from contracts.statistics import DriftReport, ReportError, decode_report
from contracts.wire import Accepted, SegmentUpload
from contracts.wire.base import Identifier
from services.kit.outbox import enqueue
from services.kit.problems import MalformedPayload
from services.telemetry.limits import LIMITS
from services.telemetry.models import Report, Segment

REPORTS = "telemetry.reports"
SEGMENTS = "telemetry.segments"

_identifier: TypeAdapter[str] = TypeAdapter(Identifier)


class BadReport(MalformedPayload):
    """The bytes are not an acceptable DRF1 report."""

    slug, title = "bad-report", "Not an acceptable drift report"


def accept_report(session: Session, body: bytes) -> Accepted:
    """Store a DRF1 report; the first one of a pseudonym and day counts, a repeated one is a duplicate."""
    report = _decoded(body)
    row = {
        "pseudonym": report.pseudonym,
        "day": report.day,
        "cohort": report.cohort,
        "embedding_id": report.embedding_id,
        "body": body,
    }
    statement = insert(Report).values(**row).on_conflict_do_nothing().returning(Report.id)
    return _accepted(session, session.scalar(statement), REPORTS)


def accept_segment(session: Session, upload: SegmentUpload) -> Accepted:
    """Store a segment; a repeated `segment_id` is a duplicate."""
    row = {
        "segment_id": upload.segment_id,
        "embedding_id": upload.embedding_id,
        "hour": upload.hour,
        "cohort": upload.tags.cohort,
        "body": upload.model_dump_json().encode(),
    }
    statement = insert(Segment).values(**row).on_conflict_do_nothing().returning(Segment.id)
    return _accepted(session, session.scalar(statement), SEGMENTS)


def _accepted(session: Session, row_id: int | None, topic: str) -> Accepted:
    if row_id is None:
        return Accepted(duplicate=True)
    enqueue(session, topic, str(row_id), {"id": row_id})
    return Accepted()


def _decoded(body: bytes) -> DriftReport:
    try:
        report = decode_report(body)
        _identifier.validate_python(report.embedding_id)
    except ReportError as error:
        raise BadReport(f"{error}; send the DRF1 bytes as the agent made them") from error
    except ValidationError as error:
        raise BadReport("the embedding id is not a plain identifier; update the agent") from error
    if report.day > LIMITS.latest_day:
        raise BadReport(f"day {report.day} is not a day; set the device's clock")
    return report
