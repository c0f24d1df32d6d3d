"""From the stream to cohort-days: take each report once, fold it when its observer is known, count the rest
apart.

Taking and folding are two steps. A report whose embedding nobody has registered waits, so that a late
registration loses nothing; after a week it is counted as refused. Both steps may be repeated at any point:
the natural key (pseudonym, day) and the emptied payload see to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import reduce
from itertools import groupby
from operator import attrgetter
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from contracts.clock import day_of
from contracts.statistics import DriftReport, ObserverParameters, ReportError, decode_report
from services.drift.domain.accumulator import CohortDayStatistics, statistics_of
from services.drift.domain.reading import Reading
from services.drift.domain.shards import SHARDS, Shards, shard_of
from services.drift.limits import LIMITS
from services.drift.models import CohortDayRow, DeviceDay, ObserverRow, Rejected


def take(session: Session, payload: bytes, now: float) -> bool:
    """Store one report for folding; False when it was refused or had been taken before. `now` is simulated
    time.
    """
    try:
        report = decode_report(payload)
        _check_plausible(report, now)
    except ReportError as error:
        reject(session, payload, error.reason, str(error), now)
        return False
    row = insert(DeviceDay).values(
        pseudonym=report.pseudonym,
        day=report.day,
        embedding_id=report.embedding_id,
        cohort=report.cohort,
        payload=payload,
    )
    return session.execute(row.on_conflict_do_nothing().returning(DeviceDay.day)).first() is not None


def take_many(session: Session, payloads: Iterable[bytes], now: float) -> None:
    """Store reports for folding, all in a few statements; what is refused is counted apart."""
    rows: dict[tuple[str, int], dict[str, Any]] = {}  # Any: values of columns
    for payload in payloads:
        try:
            report = decode_report(payload)
            _check_plausible(report, now)
        except ReportError as error:
            reject(session, payload, error.reason, str(error), now)
            continue
        row: dict[str, object] = {"embedding_id": report.embedding_id, "cohort": report.cohort, "payload": payload}
        rows.setdefault((report.pseudonym, report.day), row)
    values = [{"pseudonym": pseudonym, "day": day, **rows[pseudonym, day]} for pseudonym, day in sorted(rows)]
    if values:
        session.execute(insert(DeviceDay).on_conflict_do_nothing(), values)


def reject(session: Session, payload: bytes, reason: str, detail: str, now: float) -> None:
    """Count a report apart, once."""
    digest = hashlib.sha256(payload).hexdigest()
    row = insert(Rejected).values(digest=digest, reason=reason, detail=detail[:500], at=now)
    session.execute(row.on_conflict_do_nothing())


def fold(session: Session) -> int:
    """Merge waiting reports into their cohort-days, one bounded batch; returns how many were merged."""
    waiting = session.scalars(
        select(DeviceDay)
        .join(ObserverRow, ObserverRow.embedding_id == DeviceDay.embedding_id)
        .where(DeviceDay.payload.is_not(None))
        .order_by(DeviceDay.embedding_id, DeviceDay.cohort, DeviceDay.day, DeviceDay.pseudonym)
        .limit(LIMITS.fold_batch)
        .with_for_update(of=DeviceDay, skip_locked=True)
    ).all()
    observers = _observers(session, {row.embedding_id for row in waiting})
    for key, rows in groupby(waiting, key=attrgetter("embedding_id", "cohort", "day")):
        _fold_into(session, key, list(rows), observers[key[0]])
    return len(waiting)


def sweep(session: Session, now: float) -> int:
    """Refuse what waited too long for its observer; forget device-days that can no longer be repeated, and parts of
    cohort-days whose week has been reported.
    """
    today = day_of(now)
    waited = (DeviceDay.payload.is_not(None), DeviceDay.day < today - LIMITS.inbox_days)
    late = session.scalars(select(DeviceDay).where(*waited).limit(LIMITS.fold_batch)).all()
    for row in late:
        assert row.payload is not None
        detail = f"observer {row.embedding_id} was not registered within {LIMITS.inbox_days} days"
        reject(session, row.payload, "unknown_embedding", detail, now)
        row.payload = None
    session.flush()
    session.execute(delete(DeviceDay).where(DeviceDay.payload.is_(None), DeviceDay.day < today - LIMITS.seen_days))
    old = (CohortDayRow.shards.is_not(None), CohortDayRow.day < today - LIMITS.shard_days)
    session.execute(update(CohortDayRow).where(*old).values(shards=None))
    return len(late)


def _check_plausible(report: DriftReport, now: float) -> None:
    today = day_of(now)
    if report.day > today:
        raise ReportError("future", f"day {report.day} has not begun, today is {today}")
    if report.day < today - LIMITS.inbox_days:
        raise ReportError("late", f"day {report.day} is more than {LIMITS.inbox_days} days ago")
    if report.saturated:
        raise ReportError("saturated", "a histogram count reached its ceiling, so its shares are wrong")


def _observers(session: Session, ids: Iterable[str]) -> dict[str, ObserverParameters]:
    rows = session.scalars(select(ObserverRow).where(ObserverRow.embedding_id.in_(list(ids))))
    return {row.embedding_id: ObserverParameters.from_bytes(row.parameters) for row in rows}


def _fold_into(
    session: Session, key: tuple[str, str, int], rows: list[DeviceDay], observer: ObserverParameters
) -> None:
    reading = Reading.of(observer.projection)
    parts = [statistics_of(part, reading) for part in _in_parts(rows)]
    merged = reduce(CohortDayStatistics.merge, parts)
    stored = _locked(session, key)
    total = CohortDayStatistics.from_bytes(stored.statistics).merge(merged)
    stored.statistics = total.to_bytes()
    shards = Shards.of([part.votes for part in parts])
    stored.shards = (Shards.from_bytes(stored.shards).merge(shards) if stored.shards else shards).to_bytes()
    stored.devices, stored.frames, stored.clipped = (
        total.votes.count,
        total.moments.count,
        total.moments.clipped,
    )
    session.flush()


def _in_parts(rows: Iterable[DeviceDay]) -> list[list[DriftReport]]:
    """The reports by the part of their pseudonym; payloads are emptied."""
    parts: list[list[DriftReport]] = [[] for _ in range(SHARDS)]
    for row in rows:
        assert row.payload is not None
        parts[shard_of(row.pseudonym)].append(decode_report(row.payload))
        row.payload = None
    return parts


def _locked(session: Session, key: tuple[str, str, int]) -> CohortDayRow:
    """The cohort-day, made if new, locked until the end of the transaction."""
    embedding_id, cohort, day = key
    empty = CohortDayStatistics().to_bytes()
    values = {"embedding_id": embedding_id, "cohort": cohort, "day": day, "statistics": empty}
    session.execute(insert(CohortDayRow).values(devices=0, frames=0, clipped=0, **values).on_conflict_do_nothing())
    return session.get_one(CohortDayRow, key, with_for_update=True, populate_existing=True)


def register_observer(session: Session, parameters: ObserverParameters, now: float) -> bool:
    """Store an observer; False when the same one is known. Raises ValueError when another has the same id."""
    data = parameters.to_bytes()
    row = insert(ObserverRow).values(embedding_id=parameters.embedding_id, parameters=data, created=now)
    if session.execute(row.on_conflict_do_nothing().returning(ObserverRow.embedding_id)).first():
        return True
    known = session.get_one(ObserverRow, parameters.embedding_id)
    if known.parameters != data:
        raise ValueError(f"embedding {parameters.embedding_id} is registered with other parameters")
    return False
