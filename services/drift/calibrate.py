"""Write the A/A report of every complete week, once."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from contracts.wire.drift import DriftState
from services.drift.baselines import baselines_of
from services.drift.domain.calibration import DEVICES, SIZES, calibrate, power
from services.drift.domain.reference import Spread
from services.drift.domain.shards import Shards
from services.drift.evaluate import last_complete_day, newest_embedding
from services.drift.limits import LIMITS, DriftSettings
from services.drift.models import CalibrationRow, CohortDayRow, Evaluation
from services.drift.schemas import CalibrationReport, FalseAlarmRate, ObservedWeek, PowerAt

DAYS = 7


def last_complete_week(now: float, settings: DriftSettings) -> int:
    """Return the latest week (whole weeks since 1970) whose every day can be judged."""
    return (last_complete_day(now, settings) + 1) // DAYS - 1


def report_week(session: Session, now: float, settings: DriftSettings) -> CalibrationReport | None:
    """Make the report of the last complete week of the newest embedding; None when there is one, or nothing to say."""
    embedding_id, week = newest_embedding(session), last_complete_week(now, settings)
    if embedding_id is None or session.get(CalibrationRow, (embedding_id, week)) is not None:
        return None
    spread = baselines_of(session, embedding_id, week * DAYS + DAYS - 1).spread
    days = _shards(session, embedding_id, week)
    if spread is None or spread.freedom < settings.min_freedom or not days:
        return None
    report = _report(session, embedding_id, week, days, spread, settings)
    row = insert(CalibrationRow).values(
        embedding_id=embedding_id, week=week, report=report.model_dump(mode="json"), created=now
    )
    session.execute(row.on_conflict_do_nothing())
    return report


def _shards(session: Session, embedding_id: str, week: int) -> list[Shards]:
    chosen = (
        select(CohortDayRow.shards)
        .where(
            CohortDayRow.embedding_id == embedding_id,
            CohortDayRow.day >= week * DAYS,
            CohortDayRow.day < (week + 1) * DAYS,
            CohortDayRow.shards.is_not(None),
        )
        .order_by(CohortDayRow.devices.desc(), CohortDayRow.cohort, CohortDayRow.day)
        .limit(LIMITS.calibration_days)
    )
    return [Shards.from_bytes(data) for data in session.scalars(chosen) if data is not None]


def _report(
    session: Session, embedding_id: str, week: int, days: list[Shards], spread: Spread, settings: DriftSettings
) -> CalibrationReport:
    found = calibrate(days, spread, settings, LIMITS.calibration_tests)
    return CalibrationReport(
        embedding_id=embedding_id,
        week=week,
        first_day=week * DAYS,
        cohort_days=found.cohort_days,
        too_small=found.too_small,
        tests=found.tests,
        rates=tuple(
            FalseAlarmRate(
                nominal=one.nominal,
                rate=one.rate,
                standard_error=one.standard_error,
                resolvable=one.resolvable,
                kept=one.kept,
            )
            for one in found.rates
        ),
        observed=_observed(session, embedding_id, week, settings),
        power=tuple(
            PowerAt(d=size, devices=devices, power=round(power(size, devices, spread, settings), 4))
            for size in SIZES
            for devices in DEVICES
        ),
    )


def _observed(session: Session, embedding_id: str, week: int, settings: DriftSettings) -> ObservedWeek:
    """What the verdicts of the week were, real changes from day to day included."""
    inside = (
        Evaluation.embedding_id == embedding_id,
        Evaluation.day >= week * DAYS,
        Evaluation.day < (week + 1) * DAYS,
        Evaluation.p.is_not(None),
    )
    drifted = Evaluation.state.in_((DriftState.WARN.value, DriftState.SEVERE.value))
    judged, significant, drifting = session.execute(
        select(
            func.count(),
            func.count().filter(Evaluation.z > settings.z_threshold),
            func.count().filter(drifted),
        ).where(*inside)
    ).one()
    return ObservedWeek(judged=judged, significant=significant, drifting=drifting)
