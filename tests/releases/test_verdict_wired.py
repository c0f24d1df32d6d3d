"""Each engine where it belongs: rare crashes by odds, tails by paths, the alarm over classes; what is remembered."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from contracts.wire.feedback import FeedbackBatch
from services.kit.database import transaction
from services.releases import feedback, ticks
from services.releases.models import DecisionRow, HealthSum, RolloutRow
from services.releases.verdict import Decision, Evidence, Finding, Judgement, Memory, Tail, VerdictPolicy, judge, watch
from services.releases.verdict.crashes import CrashTable
from services.releases.verdict.memory import information
from tests.releases.conftest import OLD
from tests.releases.fleets import CLASSES, FleetMember, Values, fleet, look
from tests.releases.world import World

POLICY = VerdictPolicy()


def seen(exposed: float = 0.25, heard: float = 1.0, size: int = 1_000, seed: int = 1, **more: object) -> Evidence:
    generator = np.random.default_rng(seed)
    return look(fleet(size, generator), exposed, heard, generator, **more)  # type: ignore[arg-type]  # test glue


def reading(judgement: Judgement, metric: str, stratum: str = "all") -> Finding:
    return next(one.finding for one in judgement.readings if (one.metric, one.stratum) == (metric, stratum))


def tail(canaries: int, controls: int, seed: int, slower: float = 0.0, errors: float = 0.0) -> Tail:
    generator = np.random.default_rng(seed)
    size = canaries + controls
    canary = np.arange(size) < canaries
    latency = generator.normal(-0.4, 0.1, size)
    slow = canary & (generator.random(size) < 0.1)
    return Tail(
        keys=generator.integers(0, 2**64, size, dtype=np.uint64),
        canary=canary,
        latency=latency + slower * slow,
        errors=np.where(generator.random(size) < 0.2, 1.0, 0.0) + errors * canary,
        frames=np.full(size, 100.0),
    )


def test_crashes_from_2_to_10_in_a_thousand_roll_back_although_no_rate_is_near_its_margin() -> None:
    evidence, memory = replace(seen(), crashes={CLASSES[0]: CrashTable(25, 2_500, 15, 7_500)}), Memory()
    memory = watch(memory, evidence, POLICY)
    judgement = judge(evidence, POLICY, 1.0, 5, memory)
    assert judgement.decision is Decision.ROLLBACK
    assert judgement.worst is not None
    assert judgement.worst.metric == "crashed_devices"
    assert reading(judgement, "trial_failures") is Finding.SAFE


def test_no_stage_opens_against_evidence_that_alone_would_condemn() -> None:
    evidence = replace(seen(), crashes={CLASSES[0]: CrashTable(15, 2_500, 10, 7_500)})
    judgement = judge(evidence, POLICY, 1.0, 5, watch(Memory(), evidence, POLICY))
    assert judgement.decision is Decision.CONTINUE
    assert any("crashed_devices" in reason and "leans to harm" in reason for reason in judgement.reasons)


def test_crashes_that_the_control_has_too_condemn_nothing() -> None:
    evidence = replace(seen(), crashes={CLASSES[0]: CrashTable(25, 2_500, 75, 7_500)})
    assert judge(evidence, POLICY, 1.0, 5, watch(Memory(), evidence, POLICY)).decision is Decision.PROMOTE


def test_crash_evidence_is_remembered_over_looks_and_bet_on_once() -> None:
    evidence, memory = seen(), Memory()
    for _ in range(5):
        memory = watch(memory, replace(evidence, crashes={CLASSES[0]: CrashTable(5, 2_500, 3, 7_500)}), POLICY)
    assert memory.crashes[CLASSES[0]].crashes == 40
    later = watch(memory, evidence, POLICY)
    assert np.array_equal(later.crashes[CLASSES[0]].log_likelihood, memory.crashes[CLASSES[0]].log_likelihood)
    assert judge(evidence, POLICY, 1.0, 5, later).decision is Decision.ROLLBACK


def test_a_tail_that_no_mean_shows_is_caught_by_bootstrap_paths() -> None:
    evidence = replace(seen(), tail=tail(250, 750, 3, slower=1.0), targeted=dict.fromkeys(CLASSES, 125))
    judgement = judge(evidence, POLICY, 1.0, 5, watch(Memory(), evidence, POLICY))
    assert reading(judgement, "latency_p95_log_ratio") is Finding.HARM
    assert judgement.decision is Decision.ROLLBACK
    assert 0 < judgement.alpha_spent <= POLICY.tail_alpha


def test_a_ratio_of_sums_is_watched_too_but_not_before_ten_devices_had_errors() -> None:
    bad = replace(seen(), tail=tail(250, 750, 3, errors=1.0), targeted=dict.fromkeys(CLASSES, 125))
    assert reading(judge(bad, POLICY, 1.0, 5, watch(Memory(), bad, POLICY)), "driver_error_ratio") is Finding.HARM
    few = replace(bad.tail, errors=np.where(np.arange(1_000) < 9, 100.0, 0.0)) if bad.tail else None
    early = replace(bad, tail=few)
    memory = watch(Memory(), early, POLICY)
    assert reading(judge(early, POLICY, 1.0, 5, memory), "driver_error_ratio") is Finding.UNASKED
    assert memory.tails["driver_error_ratio"].state.spent == 0.0


def test_equal_tails_are_rarely_condemned_however_often_one_looks() -> None:
    wrong, runs = 0, 40
    evidence = seen()
    for seed in range(runs):
        memory, harmed = Memory(), False
        whole = tail(500, 500, seed)
        for step in range(1, 11):
            first = np.flatnonzero(whole.canary)[: 50 * step]
            rows = np.concatenate([first, np.flatnonzero(~whole.canary)[: 50 * step]])
            columns = (whole.keys, whole.canary, whole.latency, whole.errors, whole.frames)
            part = Tail(*(column[rows] for column in columns))
            side = replace(evidence.pooled.canary, devices=50 * step)
            pooled = replace(evidence.pooled, canary=side)
            at = replace(evidence, tail=part, pooled=pooled, targeted={"npu-2t": 500})
            memory = watch(memory, at, POLICY)
            looks = [known.interval for known in memory.tails.values() if known.interval]
            harmed |= any(interval.lower > 0 for interval in looks)
        wrong += harmed
        assert memory.spent() <= POLICY.tail_alpha
    assert wrong <= 3, "nominal: one in a hundred"


def test_information_grows_with_stages_and_never_beyond_one() -> None:
    evidence = replace(seen(), targeted={"npu-2t": 500}, stages=3)
    times = [information(replace(evidence, stage=stage)) for stage in range(3)]
    assert times == sorted(times)
    assert 0 < times[0] < times[2] <= 1.0


def test_memory_survives_the_database_and_begins_anew_under_another_policy() -> None:
    evidence = replace(
        seen(), tail=tail(250, 750, 3), targeted={"npu-2t": 250}, crashes={CLASSES[0]: CrashTable(1, 50, 1, 50)}
    )
    memory = watch(Memory(), evidence, POLICY)
    back = Memory.from_json(json.loads(json.dumps(memory.to_json())), POLICY)
    assert back.to_json() == memory.to_json()
    assert judge(evidence, POLICY, 1.0, 5, back) == judge(evidence, POLICY, 1.0, 5, memory)
    assert Memory.from_json(memory.to_json(), replace(POLICY, paths=1_000)).tails == {}


def test_many_classes_that_are_each_a_little_harmed_are_named_together() -> None:
    def slower(_member: FleetMember, values: Values) -> Values:
        return {**values, "latency_log_ratio": values["latency_log_ratio"] + 0.14}

    judgement = judge(seen(canary=slower, size=400), POLICY, 1.0, 5)
    named = {one.stratum for one in judgement.readings if one.finding is Finding.HARM}
    alone = {
        one.stratum
        for one in judgement.readings
        if one.finding is Finding.HARM and one.low is not None and one.low > one.margin
    }
    assert len(named) > len(alone), "cells help each other, which a split of alpha alone does not allow"


def test_the_worst_reading_is_the_first_reason() -> None:
    def broken(_member: FleetMember, values: Values) -> Values:
        return {**values, "fidelity_lsb": values["fidelity_lsb"] + 30.0, "cpu_frame_share": 0.9}

    judgement = judge(seen(canary=broken), POLICY, 1.0, 5)
    assert judgement.worst is not None
    assert judgement.reasons[0].startswith(f"{judgement.worst.metric} in {judgement.worst.stratum}: at least")


def test_betting_condemns_errors_of_a_canary_before_a_spread_can_be_believed() -> None:
    def broken(member: FleetMember, values: Values) -> Values:
        return {**values, "cpu_frame_share": 1.0 if int(member.device_id[1:]) % 2 else 0.0}

    evidence = seen(canary=broken, size=200)
    assert judge(evidence, replace(POLICY, means=POLICY.means[4:5]), 1.0, 5).decision is Decision.ROLLBACK
    gated = replace(POLICY.means[4], minimum_events=10_000)
    judgement = judge(evidence, replace(POLICY, means=(gated,)), 1.0, 5)
    assert judgement.decision is Decision.ROLLBACK, "the mixture sequence is gated, the bet is not"


def test_quality_lost_on_the_canary_rolls_back_but_no_promotion_waits_for_the_score() -> None:
    def score(loss: float) -> Decision:
        def scored(member: FleetMember, values: Values) -> Values:
            return {**values, "quality_loss_db": 1.0 + 0.3 * member.bias + loss}

        generator = np.random.default_rng(3)
        members = fleet(2_000, generator)
        evidence = look(members, 0.25, 1.0, generator, canary=scored)
        sides = []
        for stratum in (*evidence.strata, evidence.pooled):
            normal = generator.normal(1.0, 0.3, stratum.control.devices)
            control = replace(stratum.control, values={**stratum.control.values, "quality_loss_db": normal})
            sides.append(replace(stratum, control=control))
        return judge(replace(evidence, strata=tuple(sides[:-1]), pooled=sides[-1]), POLICY, 1.0, 5).decision

    assert score(0.0) is Decision.PROMOTE
    assert score(0.3) is Decision.ROLLBACK
    assert judge(seen(), POLICY, 1.0, 5).decision is Decision.PROMOTE, "nobody reports a score"


def test_every_decision_of_a_rollout_holds_the_planned_share_and_the_alpha_spent(world: World) -> None:
    world.enrol(40, OLD)
    rollout = world.rollout(world.register())
    world.run(rollout.id, rounds=2)
    with transaction() as session:
        rows = session.query(DecisionRow).all()
        shares = {row.inputs["exposed_share"] for row in rows}
        assert all(row.alpha_spent >= 0 for row in rows)
    assert shares
    assert None not in shares


def crash_counts(rollout_id: str) -> tuple[int, int]:
    """Crashes that were bet on, and crashed rows of the rollout that no look has counted."""
    with transaction() as session:
        row = session.get_one(RolloutRow, rollout_id)
        uncounted = session.query(HealthSum).filter(HealthSum.crashed, ~HealthSum.crash_counted).count()
        return sum(found["count"] for found in row.memory.get("crashes", {}).values()), uncounted


def test_a_reported_crash_is_bet_on_once_and_stays_with_its_device(world: World) -> None:
    world.enrol(60, OLD)
    rollout = world.rollout(world.register(), stages=[5_000, 10_000])
    world.live()
    ticks.tick(rollout.id)
    world.live(harm={"crashes": 1.0})
    ticks.tick(rollout.id)
    counted = crash_counts(rollout.id)
    world.live(harm={"crashes": 1.0})
    ticks.tick(rollout.id)
    assert counted == crash_counts(rollout.id)
    assert counted[0] > 10
    assert counted[1] == 0
    assert world.look(rollout.id).state == "rolled_back"
    assert "crashed_devices" in world.look(rollout.id).cause


def test_a_device_that_crashed_on_the_old_bundle_already_is_not_held_against_the_new_one(world: World) -> None:
    world.enrol(60, OLD)
    rollout = world.rollout(world.register(), stages=[5_000, 10_000])
    with transaction() as session:
        for device in world.devices:
            batch = world.batch(device, [], [world.report(device, crashes=1)])
            feedback.receive(session, device.id, FeedbackBatch.model_validate(batch), world.clock.now())
    ticks.tick(rollout.id)
    before = crash_counts(rollout.id)
    world.live(harm={"crashes": 1.0})
    ticks.tick(rollout.id)
    assert crash_counts(rollout.id) == before
    assert world.look(rollout.id).state == "running"


def test_where_no_control_is_left_crashes_are_compared_with_nobody(world: World) -> None:
    world.enrol(60, OLD)
    rollout = world.rollout(world.register(), stages=[10_000])
    world.live()
    world.live(harm={"crashes": 1.0})
    ticks.tick(rollout.id)
    assert crash_counts(rollout.id) == (0, 0)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_unbounded_numbers_never_reach_the_stored_readings(value: float) -> None:
    evidence = replace(seen(), crashes={CLASSES[0]: CrashTable(3, 100, 0, 100)})
    judgement = judge(evidence, POLICY, 1.0, 5, watch(Memory(), evidence, POLICY))
    numbers = [number for one in judgement.readings for number in (one.low, one.high, one.estimate)]
    assert all(number is None or math.isfinite(number) for number in numbers)
    assert value not in numbers
