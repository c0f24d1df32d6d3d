"""A rollout from its request to its end, through the real API, database and cache."""

from __future__ import annotations

from contracts.wire import RolloutState
from tests.releases.conftest import OLD
from tests.releases.world import World


def test_a_good_bundle_reaches_every_device_without_a_person(world: World) -> None:
    world.enrol(100, OLD)
    digest = world.register(version="1.1.0")
    rollout = world.rollout(digest)
    assert rollout.state is RolloutState.RUNNING
    done = world.run(rollout.id)
    assert done.state is RolloutState.COMPLETED, done.cause
    assert done.human_actions == 0
    *_, wide, everyone = (stage.basis_points for stage in done.stages)
    assert 2_500 <= wide < everyone == 10_000
    world.live()
    assert all(device.running == digest for device in world.devices)
    state = world.state(world.devices[0])
    assert state.baseline is not None
    assert state.baseline.digest == digest
    assert state.rollouts == ()


def test_a_bundle_that_fails_on_one_class_is_rolled_back_early_and_its_devices_keep_the_old_one(
    world: World,
) -> None:
    good = world.register(version="1.1.0")
    world.enrol(160, good)
    assert world.rollout(good).state is RolloutState.COMPLETED
    bad = world.register(version="1.2.0")
    rollout = world.rollout(bad)
    done = world.run(rollout.id, bad_class="npu-2t")
    assert done.state is RolloutState.ROLLED_BACK
    assert done.verdict == "rollback"
    assert "trial_failures in npu-2t" in done.cause
    assert done.stages[-1].entered is None, "it never reached the whole fleet"
    world.live()
    assert all(device.running == good for device in world.devices)
    alerts = world.client.get("/releases/v1/alerts", token=world.operator).json()["items"]
    assert alerts[0]["kind"] == "rollout.rolled-back"
    trail = world.client.get(f"/releases/v1/audit?subject=rollout:{rollout.id}", token=world.operator).json()
    assert trail["items"][0]["action"] == "rollout.rolled-back"
    records = world.client.get("/releases/v1/devices?limit=200", token=world.operator).json()["items"]
    assert {record["last_cause"] for record in records} == {"", "driver_errors"}


def test_harm_after_the_trial_is_rolled_back_too(world: World) -> None:
    world.enrol(160, OLD)
    rollout = world.rollout(world.register())
    done = world.run(rollout.id, harm={"latency_p99_ms": 40.0, "deadline_misses": 40})
    assert done.state is RolloutState.ROLLED_BACK
    assert any(word in done.cause for word in ("latency_log_ratio", "deadline_miss_share"))
