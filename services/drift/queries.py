"""Read side of drift: what the API shows."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select, tuple_
from sqlalchemy.orm import Session

from contracts.wire.drift import AlarmAction, Cohort, DriftAlarm, DriftState
from services.drift.domain.verdict import drifting
from services.drift.evaluate import newest_embedding
from services.drift.limits import DriftSettings
from services.drift.models import Alarm, Evaluation, Rejected
from services.drift.schemas import CohortDayDetail, RejectedReason
from services.kit.pages import PageRequest


def cohorts(session: Session, request: PageRequest, settings: DriftSettings) -> list[Cohort]:
    """Return up to `limit + 1` cohorts of the newest embedding, by name, with their latest day."""
    embedding_id = newest_embedding(session)
    names = (
        select(Evaluation.cohort).where(Evaluation.embedding_id == embedding_id).distinct().order_by(Evaluation.cohort)
    )
    if request.after is not None:
        names = names.where(Evaluation.cohort > str(request.after[0]))
    return [
        _cohort(name, _latest(session, str(embedding_id), name, settings.window_days), settings)
        for name in session.scalars(names.limit(request.limit + 1))
    ]


def series(
    session: Session, request: PageRequest, embedding_id: str | None, cohort: str | None, from_day: int
) -> Sequence[Evaluation]:
    """Return up to `limit + 1` cohort-days in order of day, then cohort."""
    chosen = embedding_id or newest_embedding(session)
    statement = select(Evaluation).where(Evaluation.embedding_id == chosen, Evaluation.day >= from_day)
    if cohort is not None:
        statement = statement.where(Evaluation.cohort == cohort)
    if request.after is not None:
        day, name = request.after
        statement = statement.where(tuple_(Evaluation.day, Evaluation.cohort) > (int(day), str(name)))
    return session.scalars(statement.order_by(Evaluation.day, Evaluation.cohort).limit(request.limit + 1)).all()


def alarms(session: Session, request: PageRequest) -> Sequence[Alarm]:
    """Return up to `limit + 1` alarms, newest first."""
    statement = select(Alarm).order_by(Alarm.created.desc(), Alarm.id.desc()).limit(request.limit + 1)
    if request.after is not None:
        created, identity = request.after
        statement = statement.where(tuple_(Alarm.created, Alarm.id) < (float(created), str(identity)))
    return session.scalars(statement).all()


def rejected(session: Session) -> list[RejectedReason]:
    """Count the reports that were counted apart, by reason."""
    statement = (
        select(Rejected.reason, func.count(), func.max(Rejected.detail))
        .group_by(Rejected.reason)
        .order_by(Rejected.reason)
    )
    rows = session.execute(statement)
    return [RejectedReason(reason=reason, reports=count, latest=detail) for reason, count, detail in rows]


def cohort_day(row: Evaluation) -> CohortDayDetail:
    """Return the row as the API shows it."""
    return CohortDayDetail(
        embedding_id=row.embedding_id,
        cohort=row.cohort,
        day=row.day,
        devices=row.devices,
        frames=row.frames,
        state=DriftState(row.state),
        reason=row.reason,
        p=row.p,
        z=row.z,
        d=row.d,
        js=row.js,
        score_mean=row.score_mean,
    )


def alarm(row: Alarm) -> DriftAlarm:
    """Return the row as the API shows it."""
    return DriftAlarm(
        id=row.id,
        cohorts=tuple(row.cohorts),
        days=tuple(row.days),
        z=row.z,
        d=row.d,
        js=row.js,
        state=DriftState(row.state),
        action=AlarmAction(row.action),
        reason=row.reason,
        flow_run_id=row.flow_run_id,
        created=row.created,
    )


def _latest(session: Session, embedding_id: str, cohort: str, days: int) -> Sequence[Evaluation]:
    statement = (
        select(Evaluation)
        .where(Evaluation.embedding_id == embedding_id, Evaluation.cohort == cohort)
        .order_by(Evaluation.day.desc())
        .limit(days)
    )
    return session.scalars(statement).all()


def _cohort(name: str, latest: Sequence[Evaluation], settings: DriftSettings) -> Cohort:
    newest = latest[0]
    window = [row for row in latest if row.day > newest.day - settings.window_days]
    hits = sum(1 for row in window if drifting(DriftState(row.state)))
    alarmed = drifting(DriftState(newest.state)) and hits >= settings.days_in_window
    return Cohort(cohort=name, latest=cohort_day(newest), alarmed=alarmed)
