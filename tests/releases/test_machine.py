"""The rollout's state machine and the plan of its stages, without I/O."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from contracts.state import bucket
from contracts.wire import RolloutState
from services.releases.domain.machine import (
    TRANSITIONS,
    Event,
    IllegalTransition,
    Look,
    after,
    next_step,
)
from services.releases.domain.plan import exposed, plan_stages
from services.releases.verdict import Decision, Finding, Judgement, Reading, VerdictPolicy, clean_canary
from services.releases.verdict.intervals import rate_interval

POLICY = VerdictPolicy()
FINAL = (RolloutState.ROLLED_BACK, RolloutState.KILLED)
HARM = Reading("trial_failures", "npu-2t", 7, 0, 1.0, 0.3, 1.0, 0.02, Finding.HARM)


def judgement(decision: Decision) -> Judgement:
    worst = HARM if decision is Decision.ROLLBACK else None
    why = "trial_failures in npu-2t: at least 0.3, allowed 0.02" if worst else "because"
    return Judgement(decision, (why,), (), worst, 0.002, VerdictPolicy())


def look(decision: Decision, **change: object) -> Look:
    base = Look(
        state=RolloutState.RUNNING,
        last_stage=False,
        waited_s=5_000.0,
        waited_real_s=1.0,
        soak_s=3_600.0,
        patience_s=10_000.0,
        patience_floor_s=300.0,
        judgement=judgement(decision),
    )
    return replace(base, **change)  # type: ignore[arg-type]  # fields by name


@pytest.mark.parametrize("state", FINAL)
@pytest.mark.parametrize("event", list(Event))
def test_a_finished_rollout_never_moves_again(state: RolloutState, event: Event) -> None:
    with pytest.raises(IllegalTransition, match="can: nothing"):
        after(state, event)


def test_every_state_but_the_first_can_be_reached() -> None:
    assert {*TRANSITIONS.values(), RolloutState.DRAFT} == set(RolloutState)


def test_harm_rolls_back_before_the_soak_is_over() -> None:
    step = next_step(look(Decision.ROLLBACK, waited_s=0.0))
    assert step.event is Event.ROLL_BACK
    assert step.why == "trial_failures in npu-2t: at least 0.3, allowed 0.02"


def test_harm_rolls_back_a_paused_rollout() -> None:
    assert next_step(look(Decision.ROLLBACK, state=RolloutState.PAUSED)).event is Event.ROLL_BACK


def test_a_paused_rollout_is_not_promoted() -> None:
    assert next_step(look(Decision.PROMOTE, state=RolloutState.PAUSED)).event is None


def test_no_stage_is_shorter_than_its_soak() -> None:
    assert next_step(look(Decision.PROMOTE, waited_s=3_599.0)).event is None
    assert next_step(look(Decision.PROMOTE, waited_s=3_600.0)).event is Event.ADVANCE


def test_the_last_stage_completes() -> None:
    assert next_step(look(Decision.PROMOTE, last_stage=True)).event is Event.COMPLETE


def test_evidence_that_does_not_come_pauses_but_only_after_both_clocks_agree() -> None:
    late = look(Decision.CONTINUE, waited_s=13_600.0)
    assert next_step(late).event is None, "in compressed time the devices had no real time to poll"
    step = next_step(replace(late, waited_real_s=301.0))
    assert step.event is Event.PAUSE
    assert step.decision is Decision.INCONCLUSIVE


def fleet(size: int, salt: str = "s") -> dict[str, list[int]]:
    places: dict[str, list[int]] = {"npu-2t": [], "npu-4t": []}
    for index in range(size):
        places["npu-2t" if index % 2 else "npu-4t"].append(bucket(salt, f"d{index}"))
    return places


def one(share: float) -> int:
    """A verdict that any clean device satisfies."""
    return 1


@pytest.mark.parametrize("size", [20, 60, 100, 160, 306, 1_000])
@pytest.mark.parametrize("salt", ["a", "b", "c", "d", "e", "f"])
def test_a_clean_stage_can_always_open_the_next(size: int, salt: str) -> None:
    places = fleet(size, salt)
    stages = plan_stages((500, 2_500, 10_000), places, 5, 3, 0.1, lambda share: clean_canary(POLICY, share, size))
    few = max(0.15, POLICY.tolerated_devices / size)
    for stage, following in pairwise(stages):
        devices = sum(exposed(places, stage).values())
        bound = rate_interval(0, devices, POLICY.promote_alpha, POLICY.rate_prior).upper
        assert bound * following / 10_000 <= few, f"{devices} of {size} devices at {stage} can never open {following}"


def test_the_clean_canary_is_the_smallest_one() -> None:
    for share in (0.05, 0.25, 1.0):
        least = clean_canary(POLICY, share, 10_000)
        above, below = (rate_interval(0, count, 0.05, POLICY.rate_prior).upper * share for count in (least, least - 1))
        assert above <= 0.15 < below or least == 1


def test_a_large_fleet_gets_the_stages_that_were_asked_for() -> None:
    assert plan_stages((500, 2_500, 10_000), fleet(2_000), 5, 3, 0.1, one) == (500, 2_500, 10_000)


def test_a_small_fleet_gets_wider_first_stages_but_keeps_a_control() -> None:
    for salt in "abcdefgh":
        places = fleet(12, salt)
        stages = plan_stages((500, 2_500, 10_000), places, 5, 3, 0.1, one)
        first = exposed(places, stages[0])
        assert all(count <= 5 for count in first.values()), first
        assert sum(first.values()) >= 3
        assert stages[-1] == 10_000


@pytest.mark.parametrize("salt", ["a", "b", "c", "d", "e"])
def test_every_class_that_matters_has_canaries_in_the_first_stage(salt: str) -> None:
    places = fleet(300, salt)
    first = plan_stages((500, 2_500, 10_000), places, 5, 3, 0.1, one)[0]
    assert all(count >= 3 for count in exposed(places, first).values())


@pytest.mark.parametrize("stages", [(500, 500), (2_500, 500), (0, 100), (500, 10_001)])
def test_stages_that_do_not_grow_within_the_range_are_refused(stages: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="must grow"):
        plan_stages(stages, {}, 5, 3, 0.1, one)


def test_raising_the_exposure_only_adds_devices() -> None:
    places = fleet(1_000)
    small = {place for group in places.values() for place in group if place < 500}
    large = {place for group in places.values() for place in group if place < 2_500}
    assert small < large
