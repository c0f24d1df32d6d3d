"""References in the database: freeze them once, and again after a release; read them with the pooled spread.

Invariant: a frozen reference never changes, whatever arrives later; a new one is a higher version.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, load_only

from contracts.clock import day_of
from contracts.wire.drift import DriftState
from services.drift.domain.accumulator import CohortDayStatistics
from services.drift.domain.reference import Reference, Spread, pooled_spread
from services.drift.limits import DriftSettings
from services.drift.models import CohortDayRow, Evaluation, Rebase, ReferenceRow

FIRST_DAYS = "first days of the cohort"
INSIDE = "this day belongs to the cohort's reference"


@dataclass(frozen=True)
class Baselines:
    """References of every cohort of one embedding with their versions, the days they cover, and the pooled spread."""

    references: Mapping[str, Reference]
    versions: Mapping[str, int]
    days: Mapping[str, frozenset[int]]
    spread: Spread | None


def extend_references(session: Session, embedding_id: str, day: int, now: float, settings: DriftSettings) -> None:
    """Freeze the reference of every cohort that needs one and has collected enough days before `day`.

    A cohort needs one when it has none, or when a release of its device class completed after the last one ended;
    then only days after that release count. The judged day itself is left out: devices report over the whole next
    day, and a window frozen too early would stay thin for ever. A day with too many clipped frames makes no reference.
    """
    newest = {cohort: found[-1] for cohort, found in _versions(session, embedding_id).items()}
    released = _released(session, newest)
    for cohort, days in _days_before(session, embedding_id, day, list(released), settings).items():
        release = released.get(cohort)
        first = day_of(release.finished) + 1 if release else 0
        window = [row for row in days if row.day >= first][: settings.reference_days]
        if len(window) == settings.reference_days:
            version = newest[cohort].version + 1 if cohort in newest else 1
            _freeze(session, window, version, f"release {release.release}" if release else FIRST_DAYS, now)


def _released(session: Session, newest: Mapping[str, ReferenceRow]) -> dict[str, Rebase]:
    """Cohorts whose reference ends before the day of the last release of their device class, with that release."""
    releases = session.scalars(select(Rebase)).all()
    latest = {cohort: _latest_release(releases, cohort) for cohort in newest}
    return {cohort: one for cohort, one in latest.items() if one and day_of(one.finished) > max(newest[cohort].days)}


def _days_before(
    session: Session, embedding_id: str, day: int, released: Sequence[str], settings: DriftSettings
) -> dict[str, list[CohortDayRow]]:
    """Days that may make a reference, of cohorts that have none and of those `released`."""
    known = select(ReferenceRow.cohort).where(ReferenceRow.embedding_id == embedding_id)
    candidates = session.scalars(
        select(CohortDayRow)
        .where(
            CohortDayRow.embedding_id == embedding_id,
            CohortDayRow.day < day,
            CohortDayRow.devices >= settings.reference_min_devices,
            CohortDayRow.clipped <= settings.reference_max_clipped * CohortDayRow.frames,
            or_(CohortDayRow.cohort.not_in(known), CohortDayRow.cohort.in_(released)),
        )
        .options(load_only(CohortDayRow.day))
        .order_by(CohortDayRow.cohort, CohortDayRow.day)
    )
    by_cohort: dict[str, list[CohortDayRow]] = defaultdict(list)
    for row in candidates:
        by_cohort[row.cohort].append(row)
    return by_cohort


def _latest_release(releases: Sequence[Rebase], cohort: str) -> Rebase | None:
    device_class = cohort.split("/", 1)[0]
    mine = [row for row in releases if not row.device_classes or device_class in row.device_classes]
    return max(mine, key=lambda row: row.finished, default=None)


def _freeze(session: Session, days: Sequence[CohortDayRow], version: int, cause: str, now: float) -> None:
    embedding_id, cohort = days[0].embedding_id, days[0].cohort
    reference = Reference.of_days([CohortDayStatistics.from_bytes(row.statistics).votes for row in days])
    row_days = [row.day for row in days]
    row = insert(ReferenceRow).values(
        embedding_id=embedding_id,
        cohort=cohort,
        version=version,
        days=row_days,
        devices=reference.votes.count,
        cause=cause,
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


def _versions(session: Session, embedding_id: str) -> dict[str, list[ReferenceRow]]:
    """All references of every cohort, oldest first."""
    statement = select(ReferenceRow).where(ReferenceRow.embedding_id == embedding_id)
    found: dict[str, list[ReferenceRow]] = defaultdict(list)
    for row in session.scalars(statement.order_by(ReferenceRow.cohort, ReferenceRow.version)):
        found[row.cohort].append(row)
    return found


def baselines_of(session: Session, embedding_id: str, day: int) -> Baselines:
    """Return the reference of every cohort that holds on `day` and the spread pooled over them.

    That is the newest one that does not begin after the day, so that a day judged again after a release is judged as
    it was; the days of every version are days of a reference.
    """
    versions = _versions(session, embedding_id)
    rows = [_holding(found, day) for found in versions.values()]
    references = {row.cohort: Reference.from_bytes(row.statistics) for row in rows}
    freedom = sum(reference.freedom for reference in references.values())
    spread = pooled_spread(list(references.values())) if freedom else None
    days = {cohort: frozenset(one for row in found for one in row.days) for cohort, found in versions.items()}
    return Baselines(references, {row.cohort: row.version for row in rows}, days, spread)


def _holding(versions: Sequence[ReferenceRow], day: int) -> ReferenceRow:
    begun = [row for row in versions if min(row.days) <= day]
    return begun[-1] if begun else versions[0]
