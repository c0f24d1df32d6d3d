"""What users of other update systems complain about, one test each, named by what happens here instead.

The numbers are those of the list that this part was designed from; downloads (3, 5, 15) are in `test_download.py`,
crashes and lost reports (6, 17) in `test_crash.py`.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from contracts.bundle import Bundle
from contracts.clock import SystemClock
from contracts.wire import EnrolmentRequest
from edge_agent.agent import Agent
from edge_agent.compose import agent_from
from edge_agent.config import load_config
from edge_agent.report import device_report
from edge_agent.slots import SlotState
from edge_agent.transport import Transport, make_client
from tests.edge_agent.workshop import Workshop, play
from tests.support.agent_twin import ToyLoader, write_video
from tests.support.platform_twin import TOKEN, PlatformTwin


def offered(
    twin: PlatformTwin, workshop: Workshop, version: str, epoch: int, rollout: str = "r1", **how: object
) -> str:
    """Offer a bundle to everybody by a rollout; returns its digest."""
    bundle = workshop.bundle(version, **how)
    target = workshop.released(bundle).model_dump()
    twin.set_state(epoch=epoch, rollouts=[{"id": rollout, "target": target, "salt": "s", "basis_points": 10_000}])
    return bundle.digest


def last(twin: PlatformTwin) -> tuple[str, str]:
    batch = twin.batches[-1][1]
    return batch.running_digest, batch.slot_stage.value


def test_1_a_device_that_fell_back_never_counts_as_updated(workshop: Workshop, twin: PlatformTwin) -> None:
    """hawkBit#3185: success is a confirmed bundle that runs, and the running one is always reported."""
    digest = offered(twin, workshop, "2.0", 2, errors_from=1)
    agent = workshop.agent()
    agent.sync()
    play(agent, 2)
    agent.sync()
    assert last(twin) == (digest, "trial")
    play(agent, 10)
    agent.sync()
    assert last(twin)[0] == workshop.factory.digest
    assert ("confirmed", "none") not in twin.installs


def test_2_installed_trial_confirmed_and_rolled_back_are_told_apart(workshop: Workshop, twin: PlatformTwin) -> None:
    """rauc-hawkbit-updater#161: no success before the device has run the bundle."""
    offered(twin, workshop, "2.0", 2)
    agent = workshop.agent()
    agent.sync()
    assert agent.slots.a.state is SlotState.INSTALLED
    assert "trial" not in [stage for stage, _ in twin.installs]
    play(agent, 3)
    agent.sync()
    assert agent.slots.a.state is SlotState.TRIAL
    assert ("confirmed", "none") not in twin.installs
    play(agent, 10)
    agent.sync()
    assert agent.slots.a.state is SlotState.CONFIRMED
    assert [stage for stage, _ in twin.installs] == ["downloaded", "installed", "trial", "confirmed"]


def test_2_a_bundle_that_failed_may_be_offered_again_by_another_release(workshop: Workshop, twin: PlatformTwin) -> None:
    """hawkBit#446: after a fall back the same version could never be offered again."""
    target = workshop.released(workshop.bundle("2.0", errors_from=1)).model_dump()
    agent = workshop.agent()
    for epoch, name in ((2, "r1"), (3, "r1"), (4, "r2")):
        twin.set_state(epoch=epoch, rollouts=[{"id": name, "target": target, "salt": "s", "basis_points": 10_000}])
        agent.sync()
        play(agent, 6)
        agent.sync()
    assert [entry.offer for entry in agent.slots.rollbacks] == ["r1", "r2"]


def test_4_a_trial_without_an_end_ends_by_its_deadline(workshop: Workshop, twin: PlatformTwin) -> None:
    """hawkBit#693: stuck in "proceeding" for ever."""
    offered(twin, workshop, "2.0", 2)
    agent = workshop.agent()
    agent.sync()
    play(agent, 4, workshop.clock, seconds=86_400)
    agent.sync()
    assert ("rolled_back", "timeout") in twin.installs


def test_6_a_report_that_was_lost_is_sent_again_and_nothing_is_installed_again(
    workshop: Workshop, twin: PlatformTwin
) -> None:
    """hawkBit#381: a lost report made the device install the same thing again."""
    digest = offered(twin, workshop, "2.0", 2)
    agent = workshop.agent()
    agent.sync()
    twin.wrong.statuses["/releases/v1/feedback"] = [503] * 2
    play(agent, 12)
    agent.sync()
    fetched = sum(count for path, count in twin.requests.items() if "/targets/" in path)

    again = workshop.agent()
    again.sync()
    again.sync()
    assert ("confirmed", "none") in twin.installs
    assert again.playback.digest == digest
    assert sum(count for path, count in twin.requests.items() if "/targets/" in path) == fetched


def test_11_a_device_reports_its_factory_bundle_when_it_joins(tmp_path: Path, twin: PlatformTwin) -> None:
    """hawkBit#1399: a device could not say what it came with."""
    (tmp_path / "made").mkdir()
    factory = Workshop(tmp_path / "made", twin).factory
    video = write_video(tmp_path / "v.mp4", frames=4)
    settings = {
        "state_dir": str(tmp_path / "device"),
        "factory_bundle": str(factory.path),
        "source": str(video),
        "tags": {"device_class": "npu-4t"},
        "enrolment_token": TOKEN,
    }
    path = tmp_path / "agent.json"
    path.write_text(json.dumps(settings))
    with make_client() as client:
        agent: Agent = agent_from(load_config(path, {}), SystemClock(), ToyLoader(), Transport(twin.url, client))
        agent.close()
    (request,) = twin.devices.values()
    assert isinstance(request, EnrolmentRequest)
    assert request.running_digest == factory.digest == Bundle.open(factory.path).digest


def test_14_a_report_that_fails_after_the_confirmation_changes_no_slot(workshop: Workshop, twin: PlatformTwin) -> None:
    """mender#827: rolled back after the commit, because the report could not be sent."""
    digest = offered(twin, workshop, "2.0", 2)
    agent = workshop.agent()
    agent.sync()
    play(agent, 9)
    twin.wrong.away = True
    play(agent, 5)
    for _ in range(5):
        agent.sync()
        play(agent, 2)
    assert agent.slots.running.state is SlotState.CONFIRMED
    assert agent.playback.digest == digest


def test_16_an_older_release_may_come_back_and_an_older_epoch_may_not(workshop: Workshop, twin: PlatformTwin) -> None:
    """rugix#121 and RAUC's floor: a version floor blocks an emergency roll back, none lets an old hole in."""
    offered(twin, workshop, "2.0", 2, security_epoch=3)
    agent = workshop.agent()
    agent.sync()
    play(agent, 12)
    agent.sync()
    older = offered(twin, workshop, "1.0", 3, "r2", security_epoch=3)
    agent.sync()
    play(agent, 12)
    agent.sync()
    assert agent.playback.digest == older
    holed = offered(twin, workshop, "0.9", 4, "r3", security_epoch=2)
    for _ in range(3):
        agent.sync()
        play(agent, 3)
    assert agent.playback.digest != holed
    assert agent.slots.security_floor == 3


def test_17_the_cause_of_a_roll_back_is_kept_on_the_device_and_shown(workshop: Workshop, twin: PlatformTwin) -> None:
    """balena-supervisor#1896: it fell back, and nobody could say why."""
    offered(twin, workshop, "2.0", 2, shift=60.0)
    agent = workshop.agent()
    agent.sync()
    play(agent, 6)
    agent.close()
    shown = str(device_report(workshop.state)["rollbacks"])
    assert "fidelity" in shown
    assert "LSB away" in shown


@pytest.mark.parametrize("state", ["expired metadata", "expired state document"])
def test_20_an_offline_device_with_expired_papers_keeps_running_what_it_has(
    workshop: Workshop, twin: PlatformTwin, state: str
) -> None:
    """python-tuf PR#2472: what expired while offline must neither stop the device nor let anything new in."""
    good = offered(twin, workshop, "2.0", 2)
    agent = workshop.agent()
    agent.sync()
    play(agent, 12)
    agent.sync()
    newer = workshop.released(workshop.bundle("3.0"))
    if state == "expired metadata":
        twin.set_state(epoch=3, baseline=newer)
        twin.tuf.publish(expires=datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=1))
    else:
        twin.set_state(epoch=3, expires_in=-1, baseline=newer)
    again = workshop.agent()
    for _ in range(3):
        again.sync()
        play(again, 3)
    assert again.playback.digest == good
