"""What devices tell: repeated, late, out of order, by liars."""

from __future__ import annotations

import pytest
from sqlalchemy import func, select

from contracts.state import choose_target
from services.kit.database import transaction
from services.releases.models import Device, Exposure, HealthSum
from tests.releases.conftest import OLD
from tests.releases.world import FakeDevice, World


@pytest.fixture
def exposed(world: World) -> tuple[World, FakeDevice, str, str]:
    """A rollout of everyone, and one of its devices."""
    world.enrol(8, OLD)
    digest = world.register()
    rollout = world.rollout(digest, stages=[10_000])
    return world, world.devices[0], rollout.id, digest


def sums(rollout_id: str) -> tuple[int, int]:
    with transaction() as session:
        query = select(func.count(), func.coalesce(func.sum(HealthSum.frames), 0))
        count, frames = session.execute(query.where(HealthSum.rollout_id == rollout_id)).one()
        return int(count), int(frames)


def exposure(rollout_id: str, device: FakeDevice) -> Exposure:
    with transaction() as session:
        return session.get_one(Exposure, (rollout_id, device.id))


def test_a_repeated_report_changes_nothing(exposed: tuple[World, FakeDevice, str, str]) -> None:
    world, device, rollout, digest = exposed
    device.running = digest
    report = world.report(device)
    first, again = (world.feedback(device, [], [report]) for _ in range(2))
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json()["duplicate"] is False
    assert again.json()["duplicate"] is True
    assert sums(rollout) == (1, 100)


def test_a_batch_that_names_a_report_twice_counts_it_once(exposed: tuple[World, FakeDevice, str, str]) -> None:
    world, device, rollout, digest = exposed
    device.running = digest
    report = world.report(device)
    assert world.feedback(device, [], [report, report]).status_code == 202
    assert sums(rollout) == (1, 100)


def test_a_late_report_does_not_overwrite_what_is_newer(exposed: tuple[World, FakeDevice, str, str]) -> None:
    world, device, rollout, digest = exposed
    trial, confirmed = world.event(device, digest, "trial"), world.event(device, digest, "confirmed")
    device.running = digest
    world.feedback(device, [confirmed], [])
    device.running = OLD
    world.feedback(device, [trial], [])
    assert exposure(rollout, device).confirmed
    with transaction() as session:
        assert session.get_one(Device, device.id).running_digest == digest


def test_a_failure_is_never_forgotten(exposed: tuple[World, FakeDevice, str, str]) -> None:
    world, device, rollout, digest = exposed
    failure = world.event(device, digest, "rolled_back", "fidelity")
    world.feedback(device, [failure], [])
    world.feedback(device, [world.event(device, digest, "confirmed")], [])
    row = exposure(rollout, device)
    assert row.failed
    assert row.cause == "fidelity"


@pytest.mark.parametrize("cause", ["withdrawn", "tee_failed", "no_key"])
def test_what_is_not_the_bundles_fault_does_not_count_against_it(
    exposed: tuple[World, FakeDevice, str, str], cause: str
) -> None:
    world, device, rollout, digest = exposed
    world.feedback(device, [world.event(device, digest, "rolled_back", cause)], [])
    assert not exposure(rollout, device).failed


def test_health_of_a_bundle_that_the_device_was_not_offered_counts_for_nobody(world: World) -> None:
    world.enrol(40, OLD)
    digest = world.register()
    rollout = world.rollout(digest)
    outside = next(device for device in world.devices if not _exposed(world, device, digest))
    outside.running = digest
    assert (
        world.feedback(outside, [world.event(outside, digest, "confirmed")], [world.report(outside)]).status_code == 202
    )
    assert sums(rollout.id) == (0, 0)


def test_the_devices_own_word_on_what_it_runs_is_shown(exposed: tuple[World, FakeDevice, str, str]) -> None:
    world, device, _, _ = exposed
    device.running = "f" * 96
    world.feedback(device, [], [world.report(device)])
    records = world.client.get("/releases/v1/devices", token=world.operator).json()["items"]
    assert next(record for record in records if record["id"] == device.id)["running_digest"] == "f" * 96


def test_nobody_but_a_device_reports_and_only_about_itself(
    exposed: tuple[World, FakeDevice, str, str],
) -> None:
    world, device, _, _ = exposed
    body = world.batch(device, [], [])
    assert world.client.post("/releases/v1/feedback", token=world.operator, json=body).status_code == 403
    assert world.client.post("/releases/v1/feedback", token="el_0_wrong", json=body).status_code == 401
    assert world.client.post("/releases/v1/feedback", json=body).status_code == 401


def test_an_oversized_batch_is_refused(exposed: tuple[World, FakeDevice, str, str]) -> None:
    world, device, _, _ = exposed
    many = [world.report(device) for _ in range(51)]
    assert world.feedback(device, [], many).status_code == 422
    answer = world.client.post("/releases/v1/feedback", token=device.token, content=b"x" * 70_000)
    assert answer.status_code == 413


def _exposed(world: World, device: FakeDevice, digest: str) -> bool:
    target = choose_target(world.state(device), device.id, device.tags)
    return target is not None and target.digest == digest
