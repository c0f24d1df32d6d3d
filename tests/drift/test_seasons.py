"""A weekday that differs every week gets a reference of its own; a drift that stays never does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select, text

from contracts.wire.drift import DriftState
from services.drift.domain.season import season_before, weekday_of
from services.drift.models import Evaluation, WeekdayReferenceRow
from services.kit.database import transaction
from services.kit.settings import Settings
from tests.drift.reports import fleet_day
from tests.drift.test_pipeline import COHORTS, DEVICES, FIRST, evaluate, noon, register, states, take

MOBILE, OFFICE, OTHER = COHORTS
SHIFT = 0.4
WEEKEND = {weekday_of(FIRST + 4), weekday_of(FIRST + 5)}
S, W = DriftState.STABLE, DriftState.WARN


@pytest.fixture(autouse=True)
def empty_tables(platform: Settings) -> None:
    names = ("observers", "device_days", "rejected", "cohort_days", "cohort_references", "evaluations", "alarms")
    with transaction() as session:
        tables = ", ".join(f"drift.{name}" for name in (*names, "weekday_references"))
        session.execute(text(f"TRUNCATE {tables}, kit.outbox"))


def live(first: int, end: int, shifted: set[int], shift: float = SHIFT) -> list[int]:
    """Days `first` to `end` of the fleet; the mobile cohort moves on `shifted` days. Days that raised an alarm."""
    alarmed = []
    for day in range(FIRST + first, FIRST + end):
        for cohort in COHORTS:
            moved = shift if cohort == MOBILE and day - FIRST in shifted else 0.0
            take(fleet_day(cohort, day, DEVICES, moved), noon(day))
        if evaluate(noon(day + 1)).alarms:
            alarmed.append(day - FIRST)
    return alarmed


def frozen() -> list[tuple[str, list[int]]]:
    with transaction() as session:
        rows = session.scalars(select(WeekdayReferenceRow).order_by(WeekdayReferenceRow.weekday))
        return sorted((row.cohort, row.days) for row in rows)


def weekends(end: int) -> set[int]:
    return {day for day in range(end) if weekday_of(FIRST + day) in WEEKEND}


def test_a_weekend_is_drift_until_it_came_twice_and_then_it_is_a_weekend() -> None:
    register()
    alarmed = live(0, 21, weekends(21))
    assert weekends(21) == {4, 5, 11, 12, 18, 19}
    assert alarmed == [5, 12]
    assert [states(MOBILE)[day] for day in (4, 5, 11, 12)] == ["severe"] * 4
    assert [states(MOBILE)[day] for day in (18, 19)] == ["stable"] * 2
    assert frozen() == [(MOBILE, [FIRST + 4, FIRST + 11]), (MOBILE, [FIRST + 5, FIRST + 12])]
    with transaction() as session:
        row = session.get_one(Evaluation, ("e1", MOBILE, FIRST + 18))
        assert "this weekday's own reference" in row.reason


def test_drift_on_top_of_a_season_is_found_and_a_weekend_like_a_workday_is_no_drift() -> None:
    register()
    live(0, 18, weekends(18))
    live(18, 19, {18}, shift=2 * SHIFT)
    live(19, 20, set())
    assert states(MOBILE)[18:] == ["severe", "stable"]


def test_a_drift_that_stays_never_becomes_a_season() -> None:
    register()
    live(0, 21, set(range(4, 21)))
    assert frozen() == []
    assert set(states(MOBILE)[4:]) == {"severe"}


def test_weeks_that_differ_from_each_other_are_no_season() -> None:
    register()
    live(0, 7, {4}, shift=SHIFT)
    live(7, 14, {11}, shift=3 * SHIFT)
    live(14, 19, {18}, shift=3 * SHIFT)
    assert frozen() == []
    assert states(MOBILE)[18] == "severe"


def test_judging_again_changes_nothing_of_the_days_that_made_a_season() -> None:
    register()
    live(0, 19, weekends(19))
    before = states(MOBILE)
    late = fleet_day(MOBILE, FIRST + 12, DEVICES + 4, SHIFT)[DEVICES:]
    take(late, noon(FIRST + 19))
    evaluate(noon(FIRST + 19))
    assert states(MOBILE)[: len(before)] == before


@given(st.dictionaries(st.integers(0, 30), st.sampled_from([S, W, DriftState.INSUFFICIENT])), st.integers(1, 4))
def test_a_season_is_drifting_days_a_week_apart_with_stable_days_between(
    found: dict[int, DriftState], weeks: int
) -> None:
    days = season_before(found, 30, weeks)
    if days:
        assert list(days) == list(range(30 - 7 * weeks, 30, 7))
        assert all(found[day] is W for day in days)
        assert all(S in {found.get(between) for between in range(day + 1, day + 7)} for day in days)


def test_a_season_needs_its_weeks_and_the_way_back() -> None:
    weekly = {1: W, 2: S, 8: W, 9: S}
    assert season_before(weekly, 15, 2) == (1, 8)
    assert season_before(weekly, 15, 3) == ()
    assert season_before({**weekly, 9: W}, 15, 2) == ()
    assert season_before({**weekly, 2: DriftState.INSUFFICIENT}, 15, 2) == ()
    assert season_before(weekly, 16, 2) == ()
