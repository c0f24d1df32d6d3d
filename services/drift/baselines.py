"""References in the database: freeze them once, read them back with the pooled spread.

Invariant: a frozen reference never changes, whatever arrives later; a new one is a higher version.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from contracts.wire.drift import DriftState
from services.drift.domain.accumulator import CohortDayStatistics
from services.drift.domain.reference import Reference, Spread, pooled_spread
from services.drift.limits import DriftSettings
from services.drift.models import CohortDayRow, Evaluation, ReferenceRow

INSIDE = "this day belongs to the cohort's reference"


@dataclass(frozen=True)
class Baselines:
    """References of every cohort of one embedding, the days they cover, and the pooled spread."""

    references: Mapping[str, Reference]
    days: Mapping[str, frozenset[int]]
    spread: Spread | None


def extend_references(session: Session, embedding_id: str, day: int, now: float, settings: DriftSettings) -> None:
    """Freeze the reference of every cohort that has none and has collected enough days before `day`.

    The judged day itself is left out: devices report over the whole next day, and a window frozen too early would
    stay thin for ever. Later a completed rollout will add a higher version here; the highest version counts.
    """
    known = select(ReferenceRow.cohort).where(ReferenceRow.embedding_id == embedding_id)
    candidates = session.scalars(
        select(CohortDayRow)
        .where(
            CohortDayRow.embedding_id == embedding_id,
            CohortDayRow.day < day,
            CohortDayRow.devices >= settings.reference_min_devices,
            CohortDayRow.cohort.not_in(known),
        )
        .order_by(CohortDayRow.cohort, CohortDayRow.day)
    ).all()
    by_cohort: dict[str, list[CohortDayRow]] = defaultdict(list)
    for row in candidates:
        by_cohort[row.cohort].append(row)
    for cohort, days in by_cohort.items():
        if len(days) >= settings.reference_days:
            _freeze(session, embedding_id, cohort, days[: settings.reference_days], now)


def _freeze(session: Session, embedding_id: str, cohort: str, days: Sequence[CohortDayRow], now: float) -> None:
    reference = Reference.of_days([CohortDayStatistics.from_bytes(row.statistics).votes for row in days])
    row_days = [row.day for row in days]
    row = insert(ReferenceRow).values(
        embedding_id=embedding_id,
        cohort=cohort,
        version=1,
        days=row_days,
        devices=reference.votes.count,
        cause="first days of the cohort",
        statistics=reference.to_bytes(),
        created=now,
    )
    session.execute(row.on_conflict_do_nothing())
    window = (
        Evaluation.embedding_id == embedding_id,
        Evaluation.cohort == cohort,
        Evaluation.day.in_(row_days),
    )
    session.execute(update(Evaluation).where(*window).values(state=DriftState.REFERENCE.value, reason=INSIDE))


def baselines_of(session: Session, embedding_id: str) -> Baselines:
    """Return the newest reference of every cohort and the spread pooled over them."""
    statement = select(ReferenceRow).where(ReferenceRow.embedding_id == embedding_id)
    newest = {row.cohort: row for row in session.scalars(statement.order_by(ReferenceRow.version))}
    rows = list(newest.values())
    references = {row.cohort: Reference.from_bytes(row.statistics) for row in rows}
    freedom = sum(reference.freedom for reference in references.values())
    spread = pooled_spread(list(references.values())) if freedom else None
    return Baselines(references, {row.cohort: frozenset(row.days) for row in rows}, spread)
