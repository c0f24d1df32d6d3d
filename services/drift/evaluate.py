"""Judge complete days: references, tests, verdicts, alarms, in one transaction a day.

A day is judged once its grace period after midnight (simulated clock) is over, and again when late reports
changed it. Everything is written under natural keys, so judging twice changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from sqlalchemy import Select, and_, func, or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, defer

from contracts.clock import SECONDS_PER_DAY, day_of
from contracts.wire.drift import AlarmAction, DriftState
from services.drift.baselines import INSIDE, Baselines, baselines_of, extend_references
from services.drift.domain.accumulator import CohortDayStatistics
from services.drift.domain.alarm import alarm_id, alarmed_cohorts
from services.drift.domain.reference import Reference
from services.drift.domain.verdict import Verdict, judge, measure
from services.drift.limits import LIMITS, DriftSettings
from services.drift.models import Alarm, CohortDayRow, Evaluation
from services.drift.seasons import BESIDE, extend_weekdays, nearer, weekday_references
from services.drift.thresholds import CohortThresholds, ThresholdBook
from services.kit.outbox import enqueue

TOPIC = "drift.alarm"


def last_complete_day(now: float, settings: DriftSettings) -> int:
    """Return the latest day whose grace period is over."""
    return day_of(now - settings.grace_hours * 3600 - SECONDS_PER_DAY)


def pending_days(session: Session, now: float, settings: DriftSettings) -> list[tuple[str, int]]:
    """Return (embedding id, day), oldest first, whose cohorts changed since they were judged, or never
    were.
    """
    key = (Evaluation.embedding_id, Evaluation.cohort, Evaluation.day)
    same = and_(*(column == getattr(CohortDayRow, column.key) for column in key))
    statement = (
        select(CohortDayRow.embedding_id, CohortDayRow.day)
        .outerjoin(Evaluation, same)
        .where(
            CohortDayRow.day <= last_complete_day(now, settings),
            or_(Evaluation.day.is_(None), Evaluation.devices != CohortDayRow.devices),
        )
        .distinct()
        .order_by(CohortDayRow.day, CohortDayRow.embedding_id)
    )
    return [(embedding_id, day) for embedding_id, day in session.execute(statement)]


def evaluate_day(session: Session, embedding_id: str, day: int, now: float, settings: DriftSettings) -> str | None:
    """Judge every cohort of one day; returns the id of the alarm that this raised, if any."""
    rows, book = _cohort_days(session, embedding_id, day), ThresholdBook(session, settings)
    extend_references(session, embedding_id, day, now, settings)
    baselines = baselines_of(session, embedding_id, day)
    extend_weekdays(session, embedding_id, day, baselines, now, settings)
    weekdays = weekday_references(session, embedding_id, day, baselines)
    statistics = {row.cohort: CohortDayStatistics.from_bytes(row.statistics) for row in rows}
    own = {cohort: book.of(cohort) for cohort in statistics}
    verdicts = _verdicts(statistics, baselines, weekdays, day, settings, own)
    for row in rows:
        verdict = _with_clipping(verdicts[row.cohort], row, row.cohort in baselines.references, settings)
        _store(session, row, verdict, statistics[row.cohort].votes.score, own[row.cohort].row, now)
    return _raise_alarm(session, embedding_id, day, now, settings)


def _cohort_days(session: Session, embedding_id: str, day: int) -> Sequence[CohortDayRow]:
    statement = (
        select(CohortDayRow)
        .where(CohortDayRow.embedding_id == embedding_id, CohortDayRow.day == day)
        .options(defer(CohortDayRow.shards))
        .order_by(CohortDayRow.cohort)
        .limit(LIMITS.cohorts_per_day)
    )
    return session.scalars(statement).all()


def _verdicts(
    statistics: Mapping[str, CohortDayStatistics],
    baselines: Baselines,
    weekdays: Mapping[str, Reference],
    day: int,
    settings: DriftSettings,
    own: Mapping[str, CohortThresholds],
) -> dict[str, Verdict]:
    measured: dict[str, Verdict] = {}
    for cohort, one in statistics.items():
        if day in baselines.days.get(cohort, frozenset()):
            measured[cohort] = Verdict(DriftState.REFERENCE, INSIDE)
            continue
        limits, spread = own[cohort].limits, baselines.spread
        usual = measure(one.votes, baselines.references.get(cohort), spread, limits)
        measured[cohort] = nearer(usual, one.votes, weekdays.get(cohort), spread, limits)
    judged = judge(measured, settings, {cohort: one.limits for cohort, one in own.items()})
    beside = {cohort for cohort, one in measured.items() if one.reason == BESIDE}
    return {
        cohort: replace(one, reason=f"{one.reason}, {BESIDE}") if cohort in beside else one
        for cohort, one in judged.items()
    }


def _with_clipping(verdict: Verdict, row: CohortDayRow, referenced: bool, settings: DriftSettings) -> Verdict:
    """Say so where frames were clipped: what lies beyond eight standard deviations was counted as eight."""
    if row.clipped <= settings.reference_max_clipped * row.frames:
        return verdict
    words = f"{row.clipped / row.frames:.1%} of frames were clipped"
    if not referenced:
        return replace(verdict, reason=f"{words}: the observer's scale does not fit, the day makes no reference")
    return replace(verdict, reason=f"{verdict.reason}; {words}, so the shift is at least this large")


def _store(
    session: Session, row: CohortDayRow, verdict: Verdict, score: float, thresholds: int | None, now: float
) -> None:
    quality = verdict.quality
    values = {
        "devices": row.devices,
        "frames": row.frames,
        "state": verdict.state.value,
        "reason": verdict.reason,
        "p": verdict.p,
        "z": verdict.z,
        "d": verdict.d,
        "js": verdict.js,
        "score_mean": score,
        "z_residual": verdict.z_residual,
        "residual": verdict.residual,
        "directions": [asdict(direction) for direction in verdict.directions],
        "quality_rise_db": quality.rise_db if quality else None,
        "quality_fell": quality.fell if quality else None,
        "thresholds": thresholds,
        "evaluated": now,
    }
    key = {"embedding_id": row.embedding_id, "cohort": row.cohort, "day": row.day}
    statement = insert(Evaluation).values(**key, **values)
    session.execute(statement.on_conflict_do_update(index_elements=list(key), set_=values))


def _raise_alarm(session: Session, embedding_id: str, day: int, now: float, settings: DriftSettings) -> str | None:
    window = _window(session, embedding_id, day, settings.window_days)
    states: dict[str, dict[int, DriftState]] = defaultdict(dict)
    for row in window:
        states[row.cohort][row.day] = DriftState(row.state)
    cohorts = alarmed_cohorts(states, day, settings.window_days, settings.days_in_window)[: LIMITS.alarm_cohorts]
    if not cohorts:
        return None
    today = [row for row in window if row.day == day and row.cohort in cohorts]
    days = sorted({row.day for row in window if row.cohort in cohorts and row.state in ("warn", "severe")})
    identity = alarm_id(embedding_id, cohorts, day - settings.window_days + 1, day)
    severe = any(row.state == DriftState.SEVERE for row in today)
    alarm = insert(Alarm).values(
        id=identity,
        embedding_id=embedding_id,
        cohorts=list(cohorts),
        days=days,
        z=max(row.z or 0.0 for row in today),
        d=max(row.d or 0.0 for row in today),
        js=max((row.js for row in today if row.js is not None), default=None),
        residual=max((row.residual for row in today if row.residual is not None), key=abs, default=None),
        directions=max(today, key=lambda row: row.z or 0.0).directions,
        quality_fell=_any_fell(today),
        state=(DriftState.SEVERE if severe else DriftState.WARN).value,
        action=AlarmAction.PENDING.value,
        reason="raised, not yet decided",
        created=now,
    )
    if session.execute(alarm.on_conflict_do_nothing().returning(Alarm.id)).first() is None:
        return None
    enqueue(session, TOPIC, identity, {"alarm_id": identity})
    return identity


def _any_fell(rows: Sequence[Evaluation]) -> bool | None:
    """Whether quality fell in any of the cohorts; None when no cohort could tell and none fell."""
    known = [row.quality_fell for row in rows]
    if any(known):
        return True
    return None if None in known else False


def _window(session: Session, embedding_id: str, day: int, days: int) -> Sequence[Evaluation]:
    statement = select(Evaluation).where(
        Evaluation.embedding_id == embedding_id, Evaluation.day > day - days, Evaluation.day <= day
    )
    return session.scalars(statement.execution_options(populate_existing=True)).all()


def newest_embedding(session: Session) -> str | None:
    """Return the embedding that the fleet reported last; several on one day: the one of most devices."""
    return session.scalar(newest_embedding_of())


def newest_embedding_of() -> Select[str]:
    """Return the query behind `newest_embedding`. It reads the newest day only, however long the series is."""
    last = select(func.max(CohortDayRow.day)).scalar_subquery()
    return (
        select(CohortDayRow.embedding_id)
        .where(CohortDayRow.day == last)
        .group_by(CohortDayRow.embedding_id)
        .order_by(func.sum(CohortDayRow.devices).desc())
        .limit(1)
    )
