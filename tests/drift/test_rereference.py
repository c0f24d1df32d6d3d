"""After a release the fleet is compared with days since then; clipped days make no reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sqlalchemy import select, text

from contracts.statistics import decode_report, encode_report
from services.drift import rebase, service
from services.drift.models import Evaluation, Rebase, ReferenceRow
from services.kit.database import transaction
from services.kit.settings import Settings
from tests.drift.reports import fleet_day
from tests.drift.test_pipeline import COHORTS, DEVICES, FIRST, evaluate, live_days, noon, register, states, take

MOBILE, OFFICE, OTHER = COHORTS


@pytest.fixture(autouse=True)
def empty_tables(platform: Settings) -> None:
    names = ("observers", "device_days", "rejected", "cohort_days", "cohort_references", "evaluations", "alarms")
    with transaction() as session:
        session.execute(text(f"TRUNCATE {', '.join(f'drift.{n}' for n in (*names, 'rebases'))}, kit.outbox"))


class ReleasesTwin:
    """The releases service's list of rollouts."""

    def __init__(self, *rollouts: dict[str, Any]) -> None:
        self.rollouts = rollouts

    def get(self, path: str, **_: object) -> dict[str, Any]:
        assert path == "/releases/v1/rollouts"
        return {"items": list(self.rollouts)}


def rollout(name: str, day: float, state: str = "completed", **selector: tuple[str, ...]) -> dict[str, Any]:
    return {
        "id": name,
        "digest": "0" * 96,
        "release_version": "2",
        "state": state,
        "stage": 3,
        "stages": [],
        "selector": selector,
        "version": 1,
        "created": day * 86_400 - 9,
        "finished": None if state == "running" else day * 86_400,
    }


def notice(*rollouts: dict[str, Any]) -> int:
    completed = rebase.completed_rollouts(ReleasesTwin(*rollouts))
    with transaction() as session:
        return rebase.remember(session, completed, noon(FIRST))


def references(cohort: str) -> list[tuple[int, list[int], str]]:
    with transaction() as session:
        rows = session.scalars(select(ReferenceRow).where(ReferenceRow.cohort == cohort).order_by(ReferenceRow.version))
        return [(row.version, row.days, row.cause) for row in rows]


def go_on(first: int, days: int, shift: float) -> list[service.EvaluationRun]:
    runs = []
    for day in range(FIRST + first, FIRST + first + days):
        for cohort in COHORTS:
            take(fleet_day(cohort, day, DEVICES, shift if cohort == MOBILE else 0.0), noon(day))
        runs.append(evaluate(noon(day + 1)))
    return runs


def test_only_rollouts_that_completed_are_remembered_and_each_once() -> None:
    rows = (rollout("r1", FIRST + 1.0), rollout("r2", FIRST + 2.0, "rolled_back"), rollout("r3", FIRST, "running"))
    assert notice(*rows) == 1
    assert notice(*rows) == 0
    with transaction() as session:
        assert [row.release for row in session.scalars(select(Rebase))] == ["r1"]


def test_after_a_release_the_drifted_days_are_the_new_normal_and_the_old_reference_stays() -> None:
    register()
    live_days(days=5, drifting_from=3)
    assert states(MOBILE)[3:] == ["severe", "severe"]
    notice(rollout("r1", FIRST + 5.2))
    runs = go_on(5, 5, shift=0.4)
    assert references(MOBILE) == [
        (1, [FIRST, FIRST + 1], "first days of the cohort"),
        (2, [FIRST + 6, FIRST + 7], "release r1"),
    ]
    assert states(MOBILE)[5:] == ["severe", "reference", "reference", "stable", "stable"]
    assert runs[-1].alarms == ()


def test_a_day_judged_again_after_a_release_is_judged_as_it_was() -> None:
    register()
    live_days(days=5, drifting_from=3)
    notice(rollout("r1", FIRST + 5.2))
    go_on(5, 4, shift=0.4)
    late = fleet_day(MOBILE, FIRST + 4, DEVICES + 5, 0.4)[DEVICES:]
    take(late, noon(FIRST + 9))
    assert evaluate(noon(FIRST + 9)).days == (("e1", FIRST + 4),)
    assert states(MOBILE)[3:6] == ["severe", "severe", "severe"]


def test_a_release_for_one_device_class_leaves_the_others_alone() -> None:
    register()
    live_days(days=3, drifting_from=9)
    notice(rollout("r1", FIRST + 3.1, device_class=("npu-2t",)))
    go_on(3, 5, shift=0.0)
    assert len(references(OTHER)) == 2
    assert len(references(OFFICE)) == 1


def test_the_first_release_of_all_moves_no_reference() -> None:
    register()
    notice(rollout("r1", FIRST + 0.1))
    live_days(days=5, drifting_from=9)
    assert references(MOBILE) == [(1, [FIRST, FIRST + 1], "first days of the cohort")]


def clipped(cohort: str, day: int, share: float) -> list[bytes]:
    reports = [decode_report(payload) for payload in fleet_day(cohort, day, DEVICES)]
    for report in reports:
        object.__setattr__(report, "clipped", int(share * report.frames))
    return [encode_report(report, b"key") for report in reports]


def test_a_day_with_over_one_percent_clipped_frames_makes_no_reference_and_says_why() -> None:
    register()
    for day in range(FIRST, FIRST + 5):
        take(clipped(MOBILE, day, 0.03 if day == FIRST else 0.005), noon(day))
        evaluate(noon(day + 1))
    assert references(MOBILE)[0][1] == [FIRST + 1, FIRST + 2]
    with transaction() as session:
        reason = session.get_one(Evaluation, ("e1", MOBILE, FIRST)).reason
    assert "3.0% of frames were clipped" in reason
    assert "makes no reference" in reason


def test_a_drifting_day_with_clipped_frames_says_that_the_shift_is_at_least_as_large() -> None:
    register()
    live_days(days=3, drifting_from=9)
    take(clipped(MOBILE, FIRST + 3, 0.02), noon(FIRST + 3))
    evaluate(noon(FIRST + 4))
    with transaction() as session:
        row = session.get_one(Evaluation, ("e1", MOBILE, FIRST + 3))
    assert "at least this large" in row.reason
    assert row.state == "stable"


def test_a_verdict_keeps_directions_residual_and_quality() -> None:
    register()
    live_days(days=4, drifting_from=3)
    with transaction() as session:
        row = session.get_one(Evaluation, ("e1", MOBILE, FIRST + 3))
        assert len(row.directions) == 3
        assert all(np.sign(one["shift"]) == 1 for one in row.directions)
        assert row.residual is not None
        assert row.quality_fell is False
        assert row.quality_rise_db == pytest.approx(0.0)


def test_a_release_behind_a_rule_concerns_the_classes_that_it_found() -> None:
    ruled = {**rollout("ruled", FIRST + 1), "rule": 'network != "weak"', "device_classes": ["npu-8t"]}
    assert notice(ruled) == 1
    with transaction() as session:
        assert session.scalars(select(Rebase.device_classes).where(Rebase.release == "ruled")).one() == ["npu-8t"]
