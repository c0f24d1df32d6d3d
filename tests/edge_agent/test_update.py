"""A bundle's way onto a device, against a real TUF repository: trial, confirmation, roll back, refusal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from edge_agent.agent import Agent
from edge_agent.playback import Enhanced
from edge_agent.slots import SlotState
from edge_agent.sources import SourceFrame
from tests.edge_agent.workshop import Workshop, play
from tests.support.agent_twin import ToyPlayback
from tests.support.platform_twin import PlatformTwin


class Racing:
    """Lets the platform withdraw a rollout in the very frame that ends its trial."""

    def __init__(self, agent: Agent, withdraw: Callable[[], object]) -> None:
        self._agent, self._withdraw, self._play = agent, withdraw, agent.playback.upscale

    def upscale(self, frame: SourceFrame) -> Enhanced:
        self._withdraw()
        self._agent.sync()
        return self._play(frame)


def test_a_device_takes_the_offered_bundle_and_confirms_it_after_a_healthy_trial(
    workshop: Workshop, twin: PlatformTwin
) -> None:
    bundle = workshop.bundle("2.0")
    twin.set_state(epoch=2, baseline=workshop.released(bundle))
    agent = workshop.agent()
    assert agent.playback.digest == workshop.factory.digest

    agent.sync()
    play(agent, 10)
    assert agent.slots.running.state is SlotState.CONFIRMED
    assert agent.playback.digest == bundle.digest
    agent.sync()

    stages = [stage for stage, _ in twin.installs]
    assert stages == ["downloaded", "installed", "trial", "confirmed"]
    assert twin.batches[-1][1].running_digest == bundle.digest
    assert agent.status()["unverified_bytes_run"] == 0
    assert agent.slots.security_floor == 1


def test_a_bundle_with_driver_errors_is_left_at_once_for_the_one_before(workshop: Workshop, twin: PlatformTwin) -> None:
    good = workshop.bundle("2.0")
    twin.set_state(epoch=2, baseline=workshop.released(good))
    agent = workshop.agent()
    agent.sync()
    play(agent, 10)
    bad = workshop.bundle("3.0", errors_from=2)
    offer = {"id": "r1", "target": workshop.released(bad).model_dump(), "salt": "s", "basis_points": 10_000}
    twin.set_state(epoch=3, baseline=workshop.released(good), rollouts=[offer])

    agent.sync()
    play(agent, 1)
    assert agent.playback.digest == bad.digest
    play(agent, 4)

    assert agent.playback.digest == good.digest
    assert agent.slots.running.version == "2.0"
    assert agent.slots.rollbacks[-1].cause == "driver_errors"
    agent.sync()
    assert ("rolled_back", "driver_errors") in twin.installs
    play(agent, 20)
    agent.sync()
    assert agent.playback.digest == good.digest, "an offer that failed here is not tried again"


@pytest.mark.parametrize(("behaviour", "cause"), [({"latency_ms": 50.0}, "deadline"), ({"shift": 60.0}, "fidelity")])
def test_a_late_or_unfaithful_bundle_is_rolled_back_with_its_cause(
    workshop: Workshop, twin: PlatformTwin, behaviour: dict[str, float], cause: str
) -> None:
    twin.set_state(epoch=2, baseline=workshop.released(workshop.bundle("2.0", **behaviour)))
    agent = workshop.agent()
    agent.sync()
    play(agent, 10)
    agent.sync()

    assert agent.playback.digest == workshop.factory.digest
    assert ("rolled_back", cause) in twin.installs


def test_a_program_that_falls_over_costs_its_trial_and_not_the_picture(workshop: Workshop, twin: PlatformTwin) -> None:
    twin.set_state(epoch=2, baseline=workshop.released(workshop.bundle("2.0", raises=True)))
    agent = workshop.agent()
    agent.sync()
    play(agent, 5)

    assert agent.playback.digest == workshop.factory.digest
    assert agent.counters.plain_frames == 3


def test_a_trial_that_never_gets_its_frames_runs_out_of_time(workshop: Workshop, twin: PlatformTwin) -> None:
    twin.set_state(epoch=2, baseline=workshop.released(workshop.bundle("2.0")))
    agent = workshop.agent()
    agent.sync()
    play(agent, 4, workshop.clock, seconds=86_400)

    assert agent.slots.rollbacks[-1].cause == "timeout"


def test_a_rollout_that_ends_takes_its_devices_back_to_the_old_slot_without_a_download(
    workshop: Workshop, twin: PlatformTwin
) -> None:
    old, new = workshop.bundle("2.0"), workshop.bundle("3.0")
    baseline = workshop.released(old)
    twin.set_state(epoch=2, baseline=baseline)
    agent = workshop.agent()
    agent.sync()
    play(agent, 10)
    offer = {"id": "r1", "target": workshop.released(new).model_dump(), "salt": "s", "basis_points": 10_000}
    twin.set_state(epoch=3, baseline=baseline, rollouts=[offer])
    agent.sync()
    play(agent, 11)
    assert agent.slots.running.version == "3.0"
    before = sum(count for path, count in twin.requests.items() if "/targets/" in path)

    twin.set_state(epoch=4, baseline=baseline)
    agent.sync()
    play(agent, 1)
    agent.sync()

    assert agent.slots.running.version == "2.0"
    assert agent.slots.running.state is SlotState.CONFIRMED
    assert sum(count for path, count in twin.requests.items() if "/targets/" in path) == before
    assert ("rolled_back", "withdrawn") in twin.installs


def test_a_change_that_was_prepared_for_another_situation_is_dropped(workshop: Workshop, twin: PlatformTwin) -> None:
    good, bad = workshop.bundle("2.0"), workshop.bundle("3.0", errors_from=4)
    baseline = workshop.released(good)
    twin.set_state(epoch=2, baseline=baseline)
    agent = workshop.agent()
    agent.sync()
    play(agent, 10)
    offer = {"id": "r1", "target": workshop.released(bad).model_dump(), "salt": "s", "basis_points": 10_000}
    twin.set_state(epoch=3, baseline=baseline, rollouts=[offer])
    agent.sync()
    play(agent, 6)
    assert agent.on_trial
    late = Racing(agent, lambda: twin.set_state(epoch=4, baseline=baseline))
    agent.playback.upscale = late.upscale  # type: ignore[attr-defined, method-assign]  # a toy's method
    play(agent, 2)

    assert agent.slots.rollbacks[-1].cause == "driver_errors"
    assert agent.slots.running.version == "2.0", "the bundle before is not rolled back as well"
    assert agent.playback.digest == good.digest


def test_a_device_outside_of_the_stage_keeps_what_it_has(workshop: Workshop, twin: PlatformTwin) -> None:
    target = workshop.released(workshop.bundle("2.0")).model_dump()
    offer = {"id": "r1", "target": target, "salt": "s", "basis_points": 0}
    twin.set_state(epoch=2, rollouts=[offer])
    agent = workshop.agent()
    agent.sync()
    play(agent, 2)

    assert agent.playback.digest == workshop.factory.digest
    assert twin.installs == []


def test_a_tampered_bundle_is_refused_and_leaves_nothing_behind(workshop: Workshop, twin: PlatformTwin) -> None:
    twin.set_state(epoch=2, baseline=workshop.released(workshop.bundle("2.0")))
    twin.wrong.flip_target = True
    agent = workshop.agent()
    agent.sync()
    play(agent, 3)
    assert twin.installs == [], "one bad transfer may be an accident"
    agent.sync()

    assert agent.playback.digest == workshop.factory.digest
    assert twin.installs == [("refused", "untrusted")]
    assert list((workshop.state / "bundles").iterdir()) == []
    assert list((workshop.state / "tuf" / "parts").iterdir()) == []


def test_expired_metadata_are_refused(workshop: Workshop, twin: PlatformTwin) -> None:
    twin.set_state(epoch=2, baseline=workshop.released(workshop.bundle("2.0")))
    twin.tuf.publish(expires=datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=1))
    agent = workshop.agent()
    agent.sync()
    agent.sync()

    assert twin.installs == [("refused", "untrusted")]
    assert agent.playback.digest == workshop.factory.digest


def test_a_bundle_that_the_signed_metadata_do_not_name_is_refused(workshop: Workshop, twin: PlatformTwin) -> None:
    target = workshop.released(workshop.bundle("2.0")).model_copy(update={"path": "bundles/other.elb"})
    twin.set_state(epoch=2, baseline=target)
    agent = workshop.agent()
    agent.sync()
    agent.sync()

    assert twin.installs == [("refused", "untrusted")]


def test_a_signed_bundle_with_another_digest_than_the_offer_is_refused(workshop: Workshop, twin: PlatformTwin) -> None:
    target = workshop.released(workshop.bundle("2.0")).model_copy(update={"digest": "ab" * 48})
    twin.set_state(epoch=2, baseline=target)
    agent = workshop.agent()
    agent.sync()
    agent.sync()

    assert twin.installs == [("refused", "damaged")]
    assert list((workshop.state / "bundles").iterdir()) == []


def test_a_broken_download_resumes_where_it_stopped(workshop: Workshop, twin: PlatformTwin) -> None:
    bundle = workshop.bundle("2.0")
    twin.set_state(epoch=2, baseline=workshop.released(bundle))
    twin.wrong.break_off = [1_000, 2_000]
    agent = workshop.agent()
    agent.sync()
    play(agent, 10)

    assert agent.playback.digest == bundle.digest
    assert twin.ranges == ["bytes=1000-", "bytes=3000-"]


def test_a_server_without_ranges_sends_the_whole_file_again(workshop: Workshop, twin: PlatformTwin) -> None:
    bundle = workshop.bundle("2.0")
    twin.set_state(epoch=2, baseline=workshop.released(bundle))
    twin.wrong.break_off = [1_000]
    twin.wrong.ignore_range = True
    agent = workshop.agent()
    agent.sync()
    play(agent, 10)

    assert agent.playback.digest == bundle.digest


def test_an_older_security_epoch_is_refused_even_when_the_platform_offers_it(
    workshop: Workshop, twin: PlatformTwin
) -> None:
    twin.set_state(epoch=2, baseline=workshop.released(workshop.bundle("2.0", security_epoch=5)))
    agent = workshop.agent()
    agent.sync()
    play(agent, 10)
    assert agent.slots.security_floor == 5

    twin.set_state(epoch=3, baseline=workshop.released(workshop.bundle("2.1", security_epoch=4)))
    agent.sync()
    play(agent, 3)
    agent.sync()

    assert agent.slots.running.version == "2.0"
    assert ("refused", "old_epoch") in twin.installs


def test_an_older_release_of_the_same_epoch_is_taken(workshop: Workshop, twin: PlatformTwin) -> None:
    twin.set_state(epoch=2, baseline=workshop.released(workshop.bundle("2.0")))
    agent = workshop.agent()
    agent.sync()
    play(agent, 10)
    twin.set_state(epoch=3, baseline=workshop.released(workshop.bundle("1.5")))
    agent.sync()
    play(agent, 10)

    assert agent.slots.running.version == "1.5"


def test_a_bundle_with_another_epoch_than_its_offer_is_barred(workshop: Workshop, twin: PlatformTwin) -> None:
    target = workshop.released(workshop.bundle("2.0")).model_copy(update={"security_epoch": 9})
    twin.set_state(epoch=2, baseline=target)
    agent = workshop.agent()
    agent.sync()
    agent.sync()

    assert twin.installs == [("refused", "old_epoch")]
    assert agent.slots.failed_before(target.digest, "baseline")


def test_a_revoked_bundle_is_left(workshop: Workshop, twin: PlatformTwin) -> None:
    bundle = workshop.bundle("2.0")
    twin.set_state(epoch=2, baseline=workshop.released(bundle))
    agent = workshop.agent()
    agent.sync()
    play(agent, 10)
    twin.set_state(epoch=3, revoked=[bundle.digest])
    agent.sync()
    play(agent, 1)
    agent.sync()

    assert agent.playback.digest == workshop.factory.digest
    assert ("rolled_back", "revoked") in twin.installs


def test_a_bundle_that_is_not_for_this_device_is_barred_with_its_cause(workshop: Workshop, twin: PlatformTwin) -> None:
    twin.set_state(epoch=2, baseline=workshop.released(workshop.bundle("2.0", refuse=True)))
    agent = workshop.agent()
    agent.sync()
    agent.sync()
    play(agent, 2)

    assert ("refused", "damaged") in twin.installs
    assert agent.slots.b.state is not SlotState.INSTALLED
    assert agent.playback.digest == workshop.factory.digest


def test_the_kill_switch_stops_every_program_and_the_frames_go_on(workshop: Workshop, twin: PlatformTwin) -> None:
    agent = workshop.agent()
    agent.sync()
    play(agent, 2)
    twin.set_state(epoch=3, killed=True)
    agent.sync()
    play(agent, 5)
    assert agent.counters.upscaled == 2
    assert agent.counters.killed_frames == 5

    twin.wrong.away = True
    again = workshop.agent()
    play(again, 2)
    assert again.counters.killed_frames == 2, "a killed device stays killed without a network"

    twin.wrong.away = False
    twin.set_state(epoch=4)
    again.sync()
    play(again, 2)
    assert again.counters.upscaled == 2


def test_a_bundle_begins_a_stream_when_it_starts_to_play_and_behind_a_gap(
    workshop: Workshop, twin: PlatformTwin
) -> None:
    agent = workshop.agent()
    built_in = agent.playback
    assert isinstance(built_in, ToyPlayback)
    agent.sync()
    play(agent, 3)
    assert built_in.begun == [0]
    twin.set_state(epoch=3, killed=True)
    agent.sync()
    play(agent, 2)
    twin.set_state(epoch=4)
    agent.sync()
    play(agent, 2)
    assert built_in.begun == [0, 3]
    twin.set_state(epoch=5, baseline=workshop.released(workshop.bundle("2.0", errors_from=1)))
    agent.sync()
    play(agent, 8)
    assert agent.playback is built_in, "the trial failed"
    assert built_in.begun == [0, 3, 5]


def test_a_replayed_state_document_is_refused(workshop: Workshop, twin: PlatformTwin) -> None:
    old = twin.set_state(epoch=2)
    agent = workshop.agent()
    agent.sync()
    twin.set_state(epoch=3, killed=True)
    agent.sync()
    twin.serve_document(old)
    agent.sync()
    assert agent.killed

    restarted = workshop.agent()
    restarted.sync()
    assert restarted.killed, "the epoch is remembered across a restart"
    assert restarted.counters.sync_errors == 1


def test_a_foreign_or_expired_state_document_changes_nothing(workshop: Workshop, twin: PlatformTwin) -> None:
    agent = workshop.agent()
    agent.sync()
    for document in (b"{}", PlatformTwin().set_state(epoch=9, killed=True)):
        twin.serve_document(document)
        agent.sync()
    twin.set_state(epoch=9, killed=True, expires_in=-5)
    agent.sync()

    assert not agent.killed
    assert agent.counters.sync_errors == 3


def test_a_device_that_lost_its_state_document_keeps_its_bundle(workshop: Workshop, twin: PlatformTwin) -> None:
    bundle = workshop.bundle("2.0")
    twin.set_state(epoch=2, baseline=workshop.released(bundle))
    agent = workshop.agent()
    agent.sync()
    play(agent, 10)
    (workshop.state / "state.json").unlink()
    twin.wrong.away = True
    restarted = workshop.agent()
    restarted.sync()
    play(restarted, 2)
    twin.wrong.away = False
    twin.serve_document(b"")
    restarted.sync()
    play(restarted, 2)

    assert restarted.playback.digest == bundle.digest


def test_no_network_never_stops_a_frame(workshop: Workshop, twin: PlatformTwin) -> None:
    agent = workshop.agent()
    twin.wrong.away = True
    agent.sync()
    play(agent, 5)
    agent.sync()

    assert agent.counters.upscaled == 5
    assert agent.counters.sync_errors == 2
