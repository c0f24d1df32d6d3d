"""Read side of drift: what the API shows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from sqlalchemy import ColumnElement, ScalarSelect, Subquery, any_, func, literal, select, true, tuple_
from sqlalchemy.orm import Session, aliased

from contracts.wire.drift import AlarmAction, Cohort, CohortDay, DriftAlarm, DriftStanding, DriftState, MovedDirection
from services.drift.domain.verdict import drifting
from services.drift.evaluate import newest_embedding_of
from services.drift.limits import LIMITS, DriftSettings
from services.drift.models import Alarm, CalibrationRow, Evaluation, Rebase, Rejected, ThresholdRow
from services.drift.schemas import CalibrationReport, CohortDayDetail, RebaseAnswer, RejectedReason, ThresholdRecord
from services.kit.pages import PageRequest


def cohorts(session: Session, request: PageRequest, settings: DriftSettings) -> list[Cohort]:
    """Return up to `limit + 1` cohorts of the newest embedding, by name, with their latest day; one query."""
    first = "" if request.after is None else request.key(str)[0]
    own = aliased(Evaluation, _window(first, request.limit + 1, settings, Evaluation))
    query = select(own).order_by(own.cohort, own.day.desc())
    found: dict[str, list[Evaluation]] = defaultdict(list)
    for row in session.scalars(query):
        found[row.cohort].append(row)
    return [
        Cohort(cohort=name, latest=cohort_day(rows[0]), alarmed=_alarmed(rows, settings))
        for name, rows in found.items()
    ]


def standing(session: Session, settings: DriftSettings) -> DriftStanding:
    """Return how all cohorts of the newest embedding stand, with the loudest ones and the newest alarms."""
    window = _window("", LIMITS.cohorts_per_day, settings, *(getattr(Evaluation, name) for name in _Day._fields))
    found: dict[str, list[_Day]] = defaultdict(list)
    for row in session.execute(select(window).order_by(window.c.cohort, window.c.day.desc())):
        day = _Day(*row)
        found[day.cohort].append(day)
    alarmed = {name for name, days in found.items() if _alarmed(days, settings)}
    severe = {name for name, days in found.items() if days[0].state == DriftState.SEVERE.value}
    loud = sorted(found, key=lambda name: (name not in alarmed, name not in severe, -(found[name][0].z or 0.0), name))
    return DriftStanding(
        cohorts=len(found),
        severe=len(severe),
        alarmed=len(alarmed),
        loudest=tuple(
            Cohort(cohort=name, latest=CohortDay(**found[name][0]._asdict()), alarmed=name in alarmed)
            for name in loud[: LIMITS.loudest]
        ),
        alarms=tuple(alarm(row) for row in alarms(session, PageRequest(LIMITS.loudest, None))[: LIMITS.loudest]),
    )


def loudest(session: Session, days: int, most: int) -> Sequence[Evaluation]:
    """Return the last `days` days of the `most` cohorts with the largest z in them, by day, then cohort."""
    embedding = newest_embedding_of().scalar_subquery()
    last = select(func.max(Evaluation.day)).where(Evaluation.embedding_id == embedding).scalar_subquery()
    recent = (Evaluation.embedding_id == embedding, Evaluation.day > last - days)
    names = (
        select(Evaluation.cohort)
        .where(*recent)
        .group_by(Evaluation.cohort)
        .order_by(func.max(func.coalesce(Evaluation.z, 0.0)).desc(), Evaluation.cohort)
        .limit(most)
    )
    query = select(Evaluation).where(*recent, Evaluation.cohort.in_(names))
    return session.scalars(query.order_by(Evaluation.day, Evaluation.cohort)).all()


def series(
    session: Session,
    request: PageRequest,
    embedding_id: str | None,
    cohort: str | None,
    from_day: int,
    names: tuple[str | None, str | None] = (None, None),
) -> Sequence[Evaluation]:
    """Return up to `limit + 1` cohort-days in order of day, then cohort."""
    chosen = embedding_id or newest_embedding_of().scalar_subquery()
    statement = select(Evaluation).where(Evaluation.embedding_id == chosen, Evaluation.day >= from_day)
    if cohort is not None:
        statement = statement.where(Evaluation.cohort == cohort)
    first, last = names
    if first is not None:
        statement = statement.where(Evaluation.cohort >= first)
    if last is not None:
        statement = statement.where(Evaluation.cohort <= last)
    if request.after is not None:
        statement = statement.where(tuple_(Evaluation.day, Evaluation.cohort) > request.key(int, str))
    return session.scalars(statement.order_by(Evaluation.day, Evaluation.cohort).limit(request.limit + 1)).all()


def alarms(session: Session, request: PageRequest, cohort: str | None = None) -> Sequence[Alarm]:
    """Return up to `limit + 1` alarms, newest first; with a cohort those that name it."""
    statement = select(Alarm).order_by(Alarm.created.desc(), Alarm.id.desc()).limit(request.limit + 1)
    if cohort is not None:
        statement = statement.where(literal(cohort) == any_(Alarm.cohorts))
    if request.after is not None:
        statement = statement.where(tuple_(Alarm.created, Alarm.id) < request.key(float, str))
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
        residual=row.residual,
        z_residual=row.z_residual,
        directions=_directions(row.directions),
        quality_rise_db=row.quality_rise_db,
        quality_fell=row.quality_fell,
        thresholds=row.thresholds,
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
        residual=row.residual,
        directions=_directions(row.directions),
        quality_fell=row.quality_fell,
        state=DriftState(row.state),
        action=AlarmAction(row.action),
        reason=row.reason,
        flow_run_id=row.flow_run_id,
        created=row.created,
    )


def thresholds(session: Session, request: PageRequest, cohorts: str | None = None) -> Sequence[ThresholdRow]:
    """Return up to `limit + 1` changes of thresholds, newest first; with `cohorts` those of that name."""
    statement = select(ThresholdRow).order_by(ThresholdRow.id.desc()).limit(request.limit + 1)
    if cohorts is not None:
        statement = statement.where(ThresholdRow.cohorts == cohorts)
    if request.after is not None:
        statement = statement.where(ThresholdRow.id < request.key(int)[0])
    return session.scalars(statement).all()


def threshold(row: ThresholdRow) -> ThresholdRecord:
    """Return the row as the API shows it."""
    return ThresholdRecord(
        id=row.id, cohorts=row.cohorts, values=row.values, reason=row.reason, author=row.author, created=row.created
    )


def calibrations(session: Session, request: PageRequest) -> Sequence[CalibrationRow]:
    """Return up to `limit + 1` A/A reports, newest week first."""
    statement = select(CalibrationRow).order_by(CalibrationRow.week.desc(), CalibrationRow.embedding_id.desc())
    if request.after is not None:
        key = tuple_(CalibrationRow.week, CalibrationRow.embedding_id)
        statement = statement.where(key < request.key(int, str))
    return session.scalars(statement.limit(request.limit + 1)).all()


def calibration(row: CalibrationRow) -> CalibrationReport:
    """Return the row as the API shows it."""
    return CalibrationReport.model_validate(row.report)


def rebases(session: Session, request: PageRequest) -> Sequence[Rebase]:
    """Return up to `limit + 1` releases that asked for new references, newest first."""
    statement = select(Rebase).order_by(Rebase.created.desc(), Rebase.release.desc()).limit(request.limit + 1)
    if request.after is not None:
        statement = statement.where(tuple_(Rebase.created, Rebase.release) < request.key(float, str))
    return session.scalars(statement).all()


def rebase(row: Rebase) -> RebaseAnswer:
    """Return the row as the API shows it."""
    return RebaseAnswer(release=row.release, device_classes=tuple(row.device_classes), finished=row.finished)


def _directions(stored: Sequence[Mapping[str, float]]) -> tuple[MovedDirection, ...]:
    return tuple(MovedDirection(axis=int(one["axis"]), shift=one["shift"], z=one["z"]) for one in stored)


def _next_name(embedding: ScalarSelect[str], before: ColumnElement[str]) -> ScalarSelect[str]:
    """The first cohort after a name, by the index, in one step."""
    after = (Evaluation.embedding_id == embedding, Evaluation.cohort > before)
    return select(Evaluation.cohort).where(*after).order_by(Evaluation.cohort).limit(1).scalar_subquery()


def _window(first: str, most: int, settings: DriftSettings, *what: Any) -> Subquery:  # Any: as `select` takes
    """The newest days of up to `most` cohorts after `first`.

    The names come by steps from one to the next, so that the days between them are passed over; then the days of each.
    """
    embedding = newest_embedding_of().scalar_subquery()
    start = select(_next_name(embedding, literal(first)).label("cohort")).cte("names", recursive=True)
    step = select(_next_name(embedding, start.c.cohort)).where(start.c.cohort.is_not(None))
    names = select(start.union_all(step).c.cohort).limit(most).subquery()
    own = (
        select(*what)
        .where(Evaluation.embedding_id == embedding, Evaluation.cohort == names.c.cohort)
        .order_by(Evaluation.day.desc())
        .limit(settings.window_days)
        .lateral()
    )
    return select(own).select_from(names.join(own, true())).subquery()


class _Judged(Protocol):
    """A day with its verdict."""

    @property
    def day(self) -> Any: ...  # Any: mapped columns are descriptors

    @property
    def state(self) -> Any: ...  # Any: as above


class _Day(NamedTuple):
    """A cohort-day without what only its own page shows."""

    cohort: str
    day: int
    devices: int
    frames: int
    state: str
    z: float | None
    d: float | None
    js: float | None
    score_mean: float


def _alarmed(latest: Sequence[_Judged], settings: DriftSettings) -> bool:
    """Whether the newest of these days, newest first, drifts, and enough others of its window do."""
    newest = latest[0]
    window = [row for row in latest if row.day > newest.day - settings.window_days]
    hits = sum(1 for row in window if drifting(DriftState(row.state)))
    return drifting(DriftState(newest.state)) and hits >= settings.days_in_window
