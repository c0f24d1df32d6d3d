"""Crashes at full exposure, where no control is left: the same devices before and after they got the new bundle."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.judging import before_after
from benchmarks.judging.before_after import World as Drawn
from benchmarks.judging.rows import ceiling
from services.kit.database import transaction
from services.releases import ticks
from services.releases.models import DecisionRow
from services.releases.verdict import Decision, Finding, Judgement, VerdictPolicy, judge
from services.releases.verdict.past import CrashPast, Observed, doubtful, exceeds, pooled, ratio_lower_bound
from tests.releases.conftest import OLD
from tests.releases.test_verdict_wired import seen
from tests.releases.world import HOUR, World

POLICY = VerdictPolicy()
DEVICES = 7_500


def past(before: int, after: int, frames: float = 1.0) -> CrashPast:
    """`frames` is how many times the past's frames the new bundle has shown."""
    return CrashPast(Observed(before, DEVICES, 1e6), Observed(after, DEVICES, 1e6 * frames))


@pytest.mark.parametrize(("after", "frames", "certain"), [(15, 1, False), (30, 1, False), (120, 1, True)])
def test_only_far_more_crashes_than_the_same_devices_had_before_are_certain(
    after: int, frames: float, certain: bool
) -> None:
    assert exceeds(past(15, after, frames), 2.0, 0.001) is certain
    assert (ratio_lower_bound(past(15, after, frames), 0.001) > 2.0) is certain


def test_more_time_is_expected_to_bring_more_crashes_and_less_time_is_not_expected_to_bring_fewer() -> None:
    assert exceeds(past(15, 60), 1.25, 0.05)
    assert not exceeds(past(15, 60, frames=3.0), 1.25, 0.05)
    assert doubtful(past(15, 60, frames=3.0), 1.25, 0.05), "doubt does not go away by waiting"
    assert past(15, 15, frames=0.1).growth == 1.0, "devices that crash early have crashed by then"


def test_without_a_crash_before_a_few_after_are_no_proof() -> None:
    assert not exceeds(past(0, 6), 1.25, 0.05)
    assert not doubtful(past(0, 3), 1.25, 0.05)
    assert ratio_lower_bound(past(0, 0), 0.05) == 0.0
    assert math.isnan(past(0, 0).ratio)
    assert pooled([CrashPast(Observed(0, 0, 0.0), Observed(9, 10, 1.0))]) is None, "no past, no word"


@pytest.mark.parametrize("crashes", [3, 40, 400])
def test_doubt_is_the_exact_binomial_tail_and_rare_at_the_margin(crashes: int) -> None:
    for total in (crashes, 2 * crashes):
        law = binom(total, 1.25 / 2.25)
        raised = [one for one in range(total + 1) if doubtful(past(total - one, one), 1.25, 0.05)]
        assert raised == [one for one in range(total + 1) if law.sf(one - 1) <= 0.05]


def test_classes_together_grow_as_the_one_that_grew_most() -> None:
    both = pooled([past(10, 20), past(5, 10, frames=4.0)])
    assert both is not None
    assert (both.before.crashes, both.after.crashes, both.growth) == (15, 30, 4.0)


@pytest.mark.parametrize("world", ["any_time", "early"])
def test_a_bundle_that_crashes_as_the_old_one_is_seldom_called_worse_at_any_look(world: str) -> None:
    runs = 300
    margin = POLICY.crashes.odds_margin
    drawn: Drawn = {"any_time": before_after._any_time, "early": before_after._early}[world](1.0, runs, 1)
    assert ceiling("", before_after._alarms(drawn, margin, 0.05), runs).ok
    assert ceiling("", before_after._held(drawn, 0.05), runs).ok


def found(judgement: Judgement) -> Finding:
    return next(
        one.finding for one in judgement.readings if (one.metric, one.stratum) == ("crashes_against_past", "all")
    )


def test_certain_harm_rolls_back_and_doubt_holds_the_release() -> None:
    quiet = seen()
    name = quiet.strata[0].name
    judged = {after: judge(replace(quiet, past={name: past(15, after)}), POLICY, 1.0, 5) for after in (15, 45, 150)}
    assert [one.decision for one in judged.values()] == [Decision.PROMOTE, Decision.CONTINUE, Decision.ROLLBACK]
    assert f"crashes_against_past in {name} leans to harm" in judged[45].reasons
    assert judged[150].worst is not None
    assert judged[150].worst.metric == "crashes_against_past"
    assert found(judge(quiet, POLICY, 1.0, 5)) is Finding.UNASKED, "while there is a control"
    for one in judged[45].readings:
        numbers = (one.estimate, one.low, one.high)
        assert one.estimate is None or all(number is not None and math.isfinite(number) for number in numbers)


def full_exposure(world: World, devices: int) -> str:
    """A rollout that has just come to its last stage."""
    world.enrol(devices, OLD)
    rollout = world.rollout(world.register(), stages=[5_000, 10_000])
    while world.look(rollout.id).stage == 0:
        world.live()
        world.clock.sleep(HOUR / 2 + 1)
        ticks.tick(rollout.id)
    return rollout.id


def test_a_bundle_that_crashes_only_once_everybody_has_it_is_rolled_back(world: World) -> None:
    rollout = full_exposure(world, 200)
    world.live(harm={"crashes": 1.0})
    ticks.tick(rollout)
    assert world.look(rollout).state == "rolled_back"
    assert "crashes_against_past" in world.look(rollout).cause
    with transaction() as session:
        newest = session.query(DecisionRow).order_by(DecisionRow.id.desc()).first()
        assert newest is not None
        known = newest.inputs["past"]
    assert sum(one["before"]["crashes"] for one in known.values()) == 0
    assert 50 < sum(one["after"]["crashes"] for one in known.values()) < 200, "only devices that were the control"


def test_devices_that_crashed_before_are_not_held_against_the_new_bundle(world: World) -> None:
    world.enrol(60, OLD)
    rollout = world.rollout(world.register(), stages=[5_000, 10_000])
    for device in world.devices:
        world.feedback(device, [], [world.report(device, crashes=1)])
    while world.look(rollout.id).stage == 0:
        world.live()
        world.clock.sleep(HOUR / 2 + 1)
        ticks.tick(rollout.id)
    world.live(harm={"crashes": 1.0})
    ticks.tick(rollout.id)
    assert world.look(rollout.id).state == "running"


def test_the_simulated_worlds_are_what_they_say() -> None:
    early = before_after._early(5.0, 400, 2)
    assert early.before.mean() == pytest.approx(15, rel=0.1)
    assert early.after[:, -1].mean() == pytest.approx(75, rel=0.1)
    assert np.all(np.diff(early.after, axis=1) >= 0)
