"""What users of other update systems complain about, as behaviour of this one.

Each test names the behaviour; the complaint stands in its docstring. More live where they belong: silent devices,
pauses and many workers in `test_rollout_actions.py`, late and repeated feedback in `test_feedback.py`, missing data and
minimum samples in `test_verdict.py`, freeze and rollback of metadata in `test_tuf_repository.py`.
"""

from __future__ import annotations

import pytest
from sqlalchemy import text

from contracts.state import bucket, choose_target
from contracts.wire import Rollout
from contracts.wire.releases import RolloutState
from services.kit.database import transaction
from services.releases import fleet, rollouts, ticks
from services.releases.models import Device, Exposure, RolloutRow
from tests.releases.conftest import OLD
from tests.releases.world import HOUR, FakeDevice, World

ROLLOUTS = "/releases/v1/rollouts"


def exposed_device(world: World, digest: str) -> FakeDevice:
    """A device that the rollout's first stage means."""
    state = world.state(world.devices[0])
    for device in world.devices:
        target = choose_target(state, device.id, device.tags)
        if target is not None and target.digest == digest:
            return device
    raise AssertionError("nobody is exposed")


def exposure(rollout: Rollout, device: FakeDevice) -> Exposure:
    with transaction() as session:
        return session.get_one(Exposure, (rollout.id, device.id))


def test_a_device_that_runs_the_old_bundle_again_has_failed_whatever_it_confirmed(world: World) -> None:
    """A target counts as updated although the device fell back to its old slot (hawkBit 3185)."""
    world.enrol(60, OLD)
    digest = world.register()
    rollout = world.rollout(digest)
    device = exposed_device(world, digest)
    device.running = digest
    world.feedback(device, [world.event(device, digest, "confirmed")], [world.report(device)])
    assert exposure(rollout, device).confirmed
    device.running = OLD
    world.feedback(device, [], [world.report(device)])
    found = exposure(rollout, device)
    assert found.failed
    assert not found.confirmed
    assert found.cause == "fell_back"


def test_a_late_report_of_the_old_bundle_does_not_undo_a_confirmation(world: World) -> None:
    """The other side of the same: what is older than the newest word of a device changes nothing."""
    world.enrol(60, OLD)
    digest = world.register()
    rollout = world.rollout(digest)
    device = exposed_device(world, digest)
    late = world.report(device)
    device.running = digest
    world.feedback(device, [world.event(device, digest, "confirmed")], [world.report(device)])
    device.running = OLD
    world.feedback(device, [], [late])
    assert exposure(rollout, device).confirmed


@pytest.mark.parametrize(
    ("stage", "confirmed", "failed"),
    [("installed", False, False), ("trial", False, False), ("confirmed", True, False), ("rolled_back", False, True)],
)
def test_installed_trial_confirmed_and_rolled_back_are_kept_apart(
    world: World, stage: str, confirmed: bool, failed: bool
) -> None:
    """Success is reported before the reboot, and counted (rauc-hawkbit-updater 161, hawkBit 446)."""
    world.enrol(60, OLD)
    digest = world.register()
    rollout = world.rollout(digest)
    device = exposed_device(world, digest)
    cause = "crash" if failed else "none"
    device.running = digest if confirmed else OLD
    world.feedback(device, [world.event(device, digest, stage, cause)], [])
    found = exposure(rollout, device)
    assert (found.stage, found.confirmed, found.failed) == (stage, confirmed, failed)


def test_a_bundle_that_was_rolled_back_can_be_offered_again_by_a_person_with_a_reason(world: World) -> None:
    """After a fall-back the server refuses to offer the version ever again (hawkBit 1206)."""
    world.enrol(40, OLD)
    digest = world.register()
    first = world.rollout(digest)
    assert world.run(first.id, bad_class="npu-2t").state is RolloutState.ROLLED_BACK
    again = world.rollout(digest, token=world.operator, reason="the driver was fixed")
    assert again.state is RolloutState.RUNNING


def test_two_harmful_rollouts_in_one_tick_both_end_and_a_second_tick_changes_nothing(world: World) -> None:
    """Two groups over the threshold in one evaluation: an exception undid both (hawkBit PR 2161)."""
    world.enrol(60, OLD)
    made = [
        world.rollout(world.register(), selector={"device_class": [name]}, stages=[5_000, 10_000])
        for name in ("npu-2t", "npu-4t")
    ]
    for _ in range(4):
        world.live(harm={"driver_errors": 50.0})
    ticks.tick_all()
    found = [world.look(rollout.id) for rollout in made]
    assert [one.state for one in found] == [RolloutState.ROLLED_BACK] * 2
    assert ticks.tick_all() == 0
    assert [world.look(one.id).version for one in found] == [one.version for one in found]


def test_a_device_that_joins_later_falls_under_the_same_stage_as_all_others(world: World) -> None:
    """Static rollouts miss new devices, automatic ones hit everybody at once (hawkBit 1548, 1529)."""
    world.enrol(40, OLD)
    digest = world.register()
    rollout = world.rollout(digest, stages=[2_500, 10_000])
    late = world.enrol(80, OLD)
    state = world.state(late[0])
    points = state.rollouts[0].basis_points
    with transaction() as session:
        salt = session.get_one(RolloutRow, rollout.id).salt
    for device in late:
        target = choose_target(state, device.id, device.tags)
        assert (target is not None) == (bucket(salt, device.id) < points)
    assert 0 < sum(choose_target(state, device.id, device.tags) is not None for device in late) < len(late)


def test_a_device_tells_its_factory_bundle_when_it_joins(world: World) -> None:
    """A device cannot say which version it left the factory with (hawkBit 1399, 242)."""
    digest = world.register()
    world.enrol(10, digest)
    rollout = world.rollout(digest)
    assert rollout.state is RolloutState.COMPLETED, "everybody runs it already, nothing is sent"


def test_successful_installations_alone_do_not_open_the_next_stage(world: World) -> None:
    """The success share hides what became worse (hawkBit PR 2867)."""
    world.enrol(120, OLD)
    rollout = world.rollout(world.register(), stages=[2_500, 10_000])
    for _ in range(3):
        world.live(harm={"latency_p99_ms": 60.0})
    world.clock.sleep(HOUR + 1)
    ticks.tick_all()
    found = world.look(rollout.id)
    assert found.stages[0].confirmed > 0
    assert found.stages[0].failed == 0
    assert found.state is RolloutState.ROLLED_BACK


def test_a_page_of_devices_is_read_from_the_index_and_never_sorted(world: World) -> None:
    """The list of 1.3 million targets is slow because its order has no index (hawkBit 1016)."""
    with transaction() as session:
        session.execute(text("SET LOCAL enable_seqscan = off"))
        plan = "\n".join(
            row[0] for row in session.execute(text("EXPLAIN SELECT * FROM releases.devices ORDER BY id LIMIT 50"))
        )
    assert "pk_devices" in plan
    assert "Sort" not in plan


def test_an_older_release_may_come_back_but_an_older_security_epoch_never(world: World) -> None:
    """A genuine old bundle installs; or a floor on versions blocks the emergency roll back (rugix 121, RAUC 1400)."""
    world.enrol(20, OLD)
    older = world.register(version="0.9.0", epoch=2)
    rollout = world.rollout(older, stages=[10_000])
    assert rollout.state is RolloutState.RUNNING
    state = world.state(world.devices[0])
    device = world.devices[0]
    assert choose_target(state, device.id, device.tags) is not None
    raised = state.model_copy(update={"security_epoch_floor": 3})
    assert choose_target(raised, device.id, device.tags) is None


def test_why_a_device_fell_back_is_shown_to_operators(world: World) -> None:
    """No reason is shown for a roll back (meta-balena 1918)."""
    world.enrol(60, OLD)
    digest = world.register()
    world.rollout(digest)
    device = exposed_device(world, digest)
    world.feedback(device, [world.event(device, digest, "rolled_back", "deadline")], [])
    with transaction() as session:
        row = session.get_one(Device, device.id)
        assert fleet.view(row, None).last_cause == "deadline"


def test_harm_ends_a_rollout_in_every_state_that_has_devices_on_it(world: World) -> None:
    """Eighteen failed checks and no roll back, since a manual gate was open (Flagger 1801)."""
    world.enrol(120, OLD)
    rollout = world.rollout(world.register(), stages=[5_000, 10_000])
    world.live()
    assert world.act(rollout.id, "pause").status_code == 200
    for _ in range(4):
        world.live(harm={"driver_errors": 50.0})
    ticks.tick_all()
    assert world.look(rollout.id).state is RolloutState.ROLLED_BACK


def test_a_second_roll_back_is_told_that_there_is_nothing_left_to_do(world: World) -> None:
    """An action is stuck half way and can be neither finished nor repeated (hawkBit 950, 1318)."""
    world.enrol(20, OLD)
    rollout = world.rollout(world.register())
    assert world.act(rollout.id, "rollback").status_code == 200
    answer = world.act(rollout.id, "rollback")
    assert answer.status_code == 409
    assert "cannot rollback" in answer.json()["detail"]


def test_the_state_of_a_rollout_is_never_creating(world: World) -> None:
    """A rollout hangs in "creating", or is "finished" with no device updated (hawkBit 1770, 735)."""
    world.enrol(20, OLD)
    rollout = world.rollout(world.register())
    assert rollout.state is RolloutState.RUNNING
    assert rollout.stages[0].targeted > 0
    body = {"digest": rollout.digest, "auto_start": True, "selector": {"region": ["mars"]}}
    answer = world.client.post(ROLLOUTS, token=world.operator, json=body)
    assert answer.status_code == 409
    assert "matches none of the enrolled devices" in answer.json()["detail"]


def test_devices_of_a_new_rollout_are_drawn_anew(world: World) -> None:
    """The same devices are always first (Unleash 2054 and its kin)."""
    world.enrol(200, OLD)
    with transaction() as session:
        salts = [session.get_one(RolloutRow, world.rollout(world.register()).id).salt for _ in range(2)]
        first = [{device.id for device in session.query(Device) if bucket(salt, device.id) < 2_000} for salt in salts]
    assert first[0] != first[1]
    assert all(0 < len(one) < 100 for one in first)


def test_an_action_between_two_ticks_is_neither_lost_nor_done_twice(world: World) -> None:
    """Two operators and the verdict act at once (Argo 3015: stuck after an inconclusive analysis)."""
    world.enrol(20, OLD)
    rollout = world.rollout(world.register())
    with transaction() as session:
        rollouts.pause(session, rollouts.locked(session, rollout.id), "no verdict")
    answer = world.act(rollout.id, "resume")
    assert answer.status_code == 200
    ticks.tick_all()
    found = world.look(rollout.id)
    assert found.state is RolloutState.RUNNING
