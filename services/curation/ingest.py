"""From the stream to the table: take each segment once, keep its vector, count the rest apart."""

from __future__ import annotations

import hashlib
import math

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from sqlalchemy import delete
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from contracts.clock import hour_of
from contracts.features import segment_vector, unpack_codes
from contracts.wire import SegmentUpload
from services.curation import vectors
from services.curation.limits import LIMITS, CurationSettings
from services.curation.models import RejectedSegment, Segment


def take(session: Session, body: bytes, now: float) -> bool:
    """Store one segment; False when it was refused or had been taken before. `now` is simulated time."""
    try:
        upload = SegmentUpload.model_validate_json(body)
        _check_time(upload, now)
        codes = unpack_codes(upload.codes, (upload.frames, upload.height, upload.width, upload.channels))
        vector = _checked(segment_vector(codes))
    except (ValidationError, ValueError) as error:
        _reject(session, body, error, now)
        return False
    digest = hashlib.sha256(body).hexdigest()
    row = insert(Segment).values(
        segment_id=upload.segment_id,
        embedding_id=upload.embedding_id,
        model_version=upload.model_version,
        hour=upload.hour,
        device_class=upload.tags.device_class,
        cohort=upload.tags.cohort,
        network=upload.tags.network,
        score_mean=upload.score_mean,
        score_max=upload.score_max,
        motion=upload.motion,
        vector=vectors.to_bytes(vector),
        digest=digest,
    )
    if session.execute(row.on_conflict_do_nothing().returning(Segment.segment_id)).first() is not None:
        return True
    stored = session.get_one(Segment, upload.segment_id).digest
    if stored not in ("", digest):
        _reject(session, body, CountedApart("other-content", f"{upload.segment_id} holds other content"), now)
    return False


def sweep(session: Session, now: float, settings: CurationSettings) -> None:
    """Forget segments that are older than the retention, and dropped ones that no run looks at any more."""
    hour = hour_of(now)
    session.execute(delete(Segment).where(Segment.hour < hour - 24 * LIMITS.segment_days))
    looked_at = settings.window_days + math.ceil(settings.rebuild_days)
    session.execute(delete(Segment).where(Segment.dropped_by.is_not(None), Segment.hour < hour - 24 * looked_at))


class CountedApart(ValueError):
    """The segment is not taken; `reason` is the slug it is counted under."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def _checked(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Refuse what no distance means anything for."""
    if not np.isfinite(vector).all():
        raise CountedApart("not-finite", "the summary vector holds a value that is not finite")
    if not vector.any():
        raise CountedApart("zero-vector", "all features are zero: a blind camera or a dead quality net")
    return vector


def _check_time(upload: SegmentUpload, now: float) -> None:
    hour = hour_of(now)
    if upload.hour > hour + 1:
        raise CountedApart("future", f"hour {upload.hour} has not begun, now is {hour}")
    if upload.hour < hour - 24 * LIMITS.segment_days:
        raise CountedApart("late", f"hour {upload.hour} is more than {LIMITS.segment_days} days ago")


def _reject(session: Session, body: bytes, error: ValueError, now: float) -> None:
    reason = error.reason if isinstance(error, CountedApart) else "malformed"
    row = insert(RejectedSegment).values(
        digest=hashlib.sha256(body).hexdigest(), reason=reason, detail=str(error)[:500], at=now
    )
    session.execute(row.on_conflict_do_nothing())
