"""Devices that fall silent, clocks that jump, devices that do not tell the truth: what a rollout makes of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.exc import OperationalError

from contracts.state import choose_target
from contracts.wire import Rollout, RolloutState
from services.kit.database import transaction
from services.releases import observed, rollouts, takings, ticks
from services.releases.limits import DEVICE
from services.releases.models import Device, Exposure, RolloutRow
from services.releases.takings import Takings
from services.releases.verdict import Evidence
from tests.releases.conftest import OLD
from tests.releases.world import HOUR, FakeDevice, World


def meant(world: World, digest: str) -> list[FakeDevice]:
    state = world.state(world.devices[0])
    found = [(one, choose_target(state, one.id, one.tags)) for one in world.devices]
    return [one for one, target in found if target is not None and target.digest == digest]


def evidence(world: World, rollout: Rollout) -> Evidence:
    with transaction() as session:
        row, stages = session.get_one(RolloutRow, rollout.id), rollouts.stages(session, rollout.id)
        return observed.evidence(session, row, stages, world.clock.now())


def long_ago() -> None:
    """Let the real time pass that no device is called silent in."""
    with transaction() as session:
        past = datetime.now(UTC) - timedelta(hours=1)
        session.execute(text("UPDATE releases.exposures SET started_at = :past"), {"past": past})


def path_of(world: World, digest: str) -> str:
    """Where a client of consistent snapshots finds the bundle."""
    versions = world.client.get("/releases/tuf/metadata/timestamp.json").json()["signed"]["meta"]
    number = versions["snapshot.json"]["version"]
    snapshot = world.client.get(f"/releases/tuf/metadata/{number}.snapshot.json").json()["signed"]["meta"]
    number = snapshot["targets.json"]["version"]
    targets = world.client.get(f"/releases/tuf/metadata/{number}.targets.json").json()["signed"]["targets"]
    hashes = targets[f"bundles/{digest}.elb"]["hashes"]
    return f"bundles/{next(iter(hashes.values()))}.{digest}.elb"


def test_a_device_that_took_the_bundle_and_never_spoke_again_is_counted_as_silent(world: World) -> None:
    """A device is stuck in "proceeding" for ever (hawkBit 693); one that a bundle kills leaves no report at all."""
    world.enrol(120, OLD)
    digest = world.register()
    rollout = world.rollout(digest, stages=[2_500, 10_000], silent_after_s=2 * HOUR)
    taking = meant(world, digest)
    path = f"/releases/tuf/targets/{path_of(world, digest)}"
    for device in taking:
        assert world.client.get(path, token=device.token, headers={"Range": "bytes=0-9"}).status_code == 206
    assert evidence(world, rollout).pooled.started == 0, "taking a bundle is no evidence for it"
    assert world.look(rollout.id).stages[0].installed == 0
    world.clock.sleep(3 * HOUR)
    assert evidence(world, rollout).pooled.silent == 0, "no device is silent before it could have polled"
    long_ago()
    assert evidence(world, rollout).pooled.silent == len(taking)
    ticks.tick_all()
    found = world.look(rollout.id)
    assert found.state is RolloutState.ROLLED_BACK
    assert "silent_devices" in found.cause


def test_a_device_that_took_the_bundle_and_then_reports_is_as_any_other(world: World) -> None:
    world.enrol(60, OLD)
    digest = world.register()
    rollout = world.rollout(digest, silent_after_s=2 * HOUR)
    first, second = meant(world, digest)[:2]
    for device in (first, second):
        assert takings.take(device.id, digest[:32])
    first.running = second.running = digest
    world.feedback(first, [], [world.report(first)])
    world.feedback(second, [world.event(second, digest, "confirmed")], [world.report(second)])
    world.clock.sleep(3 * HOUR)
    long_ago()
    found = evidence(world, rollout).pooled
    assert (found.started, found.silent, found.failed) == (2, 0, 0)
    assert world.look(rollout.id).stages[0].installed == 2


def test_only_exposed_devices_of_a_rollout_in_progress_take_anything(world: World) -> None:
    world.enrol(60, OLD)
    digest = world.register()
    assert not takings.take(world.devices[0].id, digest[:32]), "there is no rollout"
    world.rollout(digest, stages=[2_500, 10_000])
    outside = next(one for one in world.devices if one not in meant(world, digest))
    assert not takings.take(outside.id, digest[:32])
    assert not takings.take("nobody", digest[:32])
    with transaction() as session:
        assert session.scalar(select(func.count()).select_from(Exposure)) == 0


def test_ranges_of_one_download_are_noted_once_and_a_database_that_is_down_stops_no_download(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, seen = [0.0], []
    monkeypatch.setattr(takings, "take", lambda device, digest: seen.append((device, digest)) or True)
    noting = Takings(lambda: now[0])
    path = f"bundles/{'a' * 64}.{'b' * 96}.elb"
    assert [noting.note("d", path) for _ in range(5)] == [True, False, False, False, False]
    assert noting.note("d", f"deltas/{'c' * 64}.{'b' * 32}-{'d' * 32}.eld") is False, "the delta leads to the same"
    assert seen == [("d", "b" * 32)]
    now[0] = DEVICE.taking_s + 1
    assert noting.note("d", path)
    assert not noting.note("d", "state-key.json")

    def down(device: str, digest: str) -> bool:
        raise OperationalError("select", {}, Exception("gone"))

    monkeypatch.setattr(takings, "take", down)
    assert not noting.note("e", path)
    monkeypatch.setattr(takings, "take", lambda device, digest: True)
    assert noting.note("e", path), "its next range tries again"


@pytest.mark.parametrize("jump", [-400 * 86_400.0, -HOUR, 400 * 86_400.0])
def test_a_clock_that_jumps_neither_promotes_nor_condemns(world: World, jump: float) -> None:
    world.enrol(120, OLD)
    digest = world.register()
    rollout = world.rollout(digest, stages=[2_500, 10_000], silent_after_s=2 * HOUR)
    for device in meant(world, digest):
        world.feedback(device, [world.event(device, digest, "trial")], [])
    world.clock.sleep(jump)
    ticks.tick_all()
    found = world.look(rollout.id)
    assert found.state is RolloutState.RUNNING, found.cause
    assert found.stage == 0
    world.clock.sleep(-jump)
    done = world.run(rollout.id)
    assert done.state is RolloutState.COMPLETED, done.cause


def test_a_device_that_lies_about_its_bundle_helps_no_release(world: World) -> None:
    """What it says it runs wins over what it says it confirmed; what nobody offered counts for nobody."""
    world.enrol(60, OLD)
    digest = world.register()
    rollout = world.rollout(digest, stages=[2_500, 10_000])
    exposed = meant(world, digest)
    liar = exposed[0]
    world.feedback(liar, [world.event(liar, digest, "confirmed")], [world.report(liar)])
    with transaction() as session:
        found = session.get_one(Exposure, (rollout.id, liar.id))
        assert (found.failed, found.confirmed, found.cause) == (True, False, "fell_back")
    outside = next(one for one in world.devices if one not in exposed)
    outside.running = digest
    world.feedback(outside, [world.event(outside, digest, "confirmed")], [world.report(outside)])
    with transaction() as session:
        assert session.get(Exposure, (rollout.id, outside.id)) is None, "it was not offered the bundle"
        session.get_one(Device, outside.id)
    assert evidence(world, rollout).pooled.canary.devices == 0


def test_of_two_operators_who_saw_the_same_the_second_has_to_look_again(world: World) -> None:
    world.enrol(20, OLD)
    rollout = world.rollout(world.register())
    headers = {"If-Match": f'"{rollout.version}"'}
    assert world.act(rollout.id, "pause", headers=headers).status_code == 200
    second = world.act(rollout.id, "rollback", headers=headers)
    assert (second.status_code, second.json()["type"]) == (412, "/problems/version-mismatch")
    assert world.look(rollout.id).state is RolloutState.PAUSED
    ticks.tick_all()
    seen = world.look(rollout.id)
    assert world.act(rollout.id, "rollback", headers={"If-Match": f'"{seen.version}"'}).status_code == 200
