"""The segments that a run looks at, read a page at a time into columns, so that many fit into memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
from sqlalchemy import func, select, tuple_
from sqlalchemy.orm import Session

from services.curation import vectors
from services.curation.domain.plan import Segments
from services.curation.limits import LIMITS
from services.curation.models import Segment

COLUMNS = (
    Segment.segment_id,
    Segment.hour,
    Segment.vector,
    Segment.score_mean,
    Segment.device_class,
    Segment.cohort,
    Segment.model_version,
)
Read = tuple[str, int, bytes, float, str, str, str]


def newest_embedding(session: Session, first_hour: int) -> str | None:
    """The embedding of the newest hour; several in that hour: the one of most segments."""
    newest = select(func.max(Segment.hour)).where(Segment.hour >= first_hour).scalar_subquery()
    statement = (
        select(Segment.embedding_id)
        .where(Segment.hour == newest)
        .group_by(Segment.embedding_id)
        .order_by(func.count().desc(), Segment.embedding_id)
        .limit(1)
    )
    return session.scalar(statement)


def count_others(session: Session, first_hour: int, embedding_id: str | None) -> int:
    """How many segments of other embeddings there are since an hour."""
    others = select(func.count()).select_from(Segment).where(Segment.hour >= first_hour)
    return session.scalar(others.where(Segment.embedding_id != embedding_id)) or 0


def read_window(session: Session, embedding_id: str | None, first_hour: int) -> Segments:
    """The segments since an hour, rising by id; the newest ones where there are more than fit."""
    ids: list[str] = []
    parts: list[bytes] = []
    scores: list[float] = []
    names: tuple[list[str], list[str], list[str]] = ([], [], [])
    for row in _newest_first(session, embedding_id, first_hour):
        ids.append(row[0])
        parts.append(row[2])
        scores.append(row[3])
        for kept, name in zip(names, row[4:], strict=True):
            kept.append(sys.intern(name))
    order = sorted(range(len(ids)), key=ids.__getitem__)
    sources, cohorts, versions = ([kept[index] for index in order] for kept in names)
    return Segments(
        ids=[ids[index] for index in order],
        vectors=vectors.matrix(parts)[order],
        scores=np.array(scores, dtype=np.float64)[order],
        sources=sources,
        cohorts=cohorts,
        versions=versions,
    )


def _newest_first(session: Session, embedding_id: str | None, first_hour: int) -> Iterator[Read]:
    """Rows in pages by key, so that no statement is long."""
    key = tuple_(Segment.hour, Segment.segment_id)
    wanted = select(*COLUMNS).where(Segment.embedding_id == embedding_id, Segment.hour >= first_hour)
    wanted = wanted.order_by(Segment.hour.desc(), Segment.segment_id.desc())
    left, after = LIMITS.window_segments, None
    while left > 0:
        page = wanted if after is None else wanted.where(key < after)
        rows = session.execute(page.limit(min(LIMITS.rows, left))).all()
        yield from rows
        left -= len(rows)
        if len(rows) < LIMITS.rows:
            return
        after = (rows[-1][1], rows[-1][0])
