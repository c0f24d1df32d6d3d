"""References of single weekdays in the database: made when a weekday is seen to differ every week, frozen once.

They stand beside the cohort's reference and never replace it: a day is judged by whichever of both it fits better. The
size of the spread between devices stays that of the cohort's references.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, defer

from contracts.wire.drift import DriftState
from services.drift.baselines import Baselines
from services.drift.domain.accumulator import CohortDayStatistics
from services.drift.domain.reference import Reference, Spread
from services.drift.domain.season import WEEK, season_before, weekday_of
from services.drift.domain.verdict import Thresholds, Verdict, drifting, judge, measure
from services.drift.domain.votes import Votes
from services.drift.limits import DriftSettings
from services.drift.models import CohortDayRow, Evaluation, WeekdayReferenceRow

BESIDE = "against this weekday's own reference"
DRIFTED = [state.value for state in DriftState if drifting(state)]


def extend_weekdays(
    session: Session, embedding_id: str, day: int, baselines: Baselines, now: float, settings: DriftSettings
) -> None:
    """Freeze a reference for the weekday of `day` in every cohort where it is a season by now."""
    if not settings.season_weeks or baselines.spread is None:
        return
    known = {row.cohort for row in _rows(session, embedding_id, day, baselines)}
    for cohort, states in _states(session, embedding_id, day, settings.season_weeks).items():
        days = season_before(states, day, settings.season_weeks)
        if not days or cohort in known or cohort not in baselines.references:
            continue
        votes = _votes(session, embedding_id, cohort, days, settings)
        if len(votes) == len(days) and _agree(votes, baselines.spread, settings):
            _freeze(session, (embedding_id, cohort), days, baselines.versions[cohort], Reference.of_days(votes), now)


def weekday_references(session: Session, embedding_id: str, day: int, baselines: Baselines) -> dict[str, Reference]:
    """References of the weekday of `day` that were frozen before it, by cohort."""
    rows = _rows(session, embedding_id, day, baselines)
    return {row.cohort: Reference.from_bytes(row.statistics) for row in rows if max(row.days) < day}


def nearer(verdict: Verdict, votes: Votes, own: Reference | None, spread: Spread | None, limits: Thresholds) -> Verdict:
    """Of a verdict against the cohort's reference and one against the weekday's, the less surprising."""
    if own is None:
        return verdict
    other = measure(votes, own, spread, limits)
    if other.p is None or (verdict.p is not None and verdict.p >= other.p):
        return verdict
    return replace(other, reason=BESIDE)


def _rows(session: Session, embedding_id: str, day: int, baselines: Baselines) -> list[WeekdayReferenceRow]:
    """Those of this weekday that belong to the references that hold on `day`."""
    statement = select(WeekdayReferenceRow).where(
        WeekdayReferenceRow.embedding_id == embedding_id, WeekdayReferenceRow.weekday == weekday_of(day)
    )
    return [row for row in session.scalars(statement) if baselines.versions.get(row.cohort) == row.version]


def _states(session: Session, embedding_id: str, day: int, weeks: int) -> Mapping[str, dict[int, DriftState]]:
    """States of the last weeks, of the cohorts that drifted a week ago: of a healthy fleet, none."""
    drifted = select(Evaluation.cohort).where(
        Evaluation.embedding_id == embedding_id, Evaluation.day == day - WEEK, Evaluation.state.in_(DRIFTED)
    )
    statement = select(Evaluation.cohort, Evaluation.day, Evaluation.state).where(
        Evaluation.embedding_id == embedding_id,
        Evaluation.day >= day - WEEK * weeks,
        Evaluation.day < day,
        Evaluation.cohort.in_(drifted),
    )
    found: dict[str, dict[int, DriftState]] = defaultdict(dict)
    for cohort, judged, state in session.execute(statement):
        found[cohort][judged] = DriftState(state)
    return found


def _votes(
    session: Session, embedding_id: str, cohort: str, days: Sequence[int], settings: DriftSettings
) -> list[Votes]:
    statement = (
        select(CohortDayRow)
        .where(
            CohortDayRow.embedding_id == embedding_id,
            CohortDayRow.cohort == cohort,
            CohortDayRow.day.in_(days),
            CohortDayRow.devices >= settings.reference_min_devices,
            CohortDayRow.clipped <= settings.reference_max_clipped * CohortDayRow.frames,
        )
        .options(defer(CohortDayRow.shards))
        .order_by(CohortDayRow.day)
    )
    return [CohortDayStatistics.from_bytes(row.statistics).votes for row in session.scalars(statement)]


def _agree(votes: Sequence[Votes], spread: Spread, settings: DriftSettings) -> bool:
    """Whether no week drifted from the one before it."""
    for before, after in pairwise(votes):
        found = measure(after, Reference.of_days([before]), spread, settings)
        if found.p is None or drifting(judge({"season": found}, settings)["season"].state):
            return False
    return True


def _freeze(
    session: Session, key: tuple[str, str], days: Sequence[int], version: int, reference: Reference, now: float
) -> None:
    embedding_id, cohort = key
    row = insert(WeekdayReferenceRow).values(
        embedding_id=embedding_id,
        cohort=cohort,
        weekday=weekday_of(days[0]),
        version=version,
        days=list(days),
        devices=reference.votes.count,
        statistics=reference.to_bytes(),
        created=now,
    )
    session.execute(row.on_conflict_do_nothing())
