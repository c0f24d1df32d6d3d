"""Sealed bundles on a device: installed, tried, left and healed, and never in clear on its disk."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from contracts.bundle import Bundle, write_bundle
from contracts.state import Target
from contracts.wire import Cause
from edge_agent.agent import LoopSettings
from edge_agent.observers.health import TrialLimits
from edge_agent.slots import SlotState
from edge_agent.tee import TeeUnavailable
from edge_agent.tee.client import TeeProcess
from edge_agent.tee.core import Tee
from tests.edge_agent.workshop import Workshop, play
from tests.support.agent_twin import ToyBundle
from tests.support.platform_twin import PlatformTwin
from tests.support.sealing_twin import CLASSES, Sealer


@pytest.fixture
def sealed(workshop: Workshop, twin: PlatformTwin) -> Iterator[Workshop]:
    twin.sealer = Sealer()
    workshop.tee = TeeProcess(workshop.state / "tee", CLASSES)
    yield workshop
    if isinstance(workshop.tee, TeeProcess):
        workshop.tee.close()


def weighted(workshop: Workshop, version: str, step: int = 0, epoch: int = 1) -> ToyBundle:
    """A toy bundle with weights that a delta can be made of, and that can be looked for on a disk."""
    toy = workshop.bundle(version, security_epoch=epoch)
    made = Bundle.open(toy.path)
    pieces = {name: bytes(made.piece(name)) for name in made.names}
    noise = np.random.default_rng(7).integers(-90, 90, 40_000)
    pieces["model.onnx"] = b"WEIGHTS" + (noise + step).astype(np.int8).tobytes()
    build = bytes.fromhex(made.manifest.build_id)
    write_bundle(toy.path, pieces, build_id=build, release_version=version, security_epoch=epoch)
    return ToyBundle(toy.path, Bundle.open(toy.path).digest, version, epoch)


def in_clear(folder: Path, *bundles: ToyBundle) -> list[str]:
    """Files that hold any 24 bytes of any piece's weights in clear, or the piece's name table."""
    marks = [bytes(Bundle.open(b.path).piece("model.onnx"))[at : at + 24] for b in bundles for at in (0, 900, 20_000)]
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if any(mark in path.read_bytes() for mark in marks)]


def offered(workshop: Workshop, twin: PlatformTwin, bundle: ToyBundle, epoch: int) -> Target:
    target = workshop.released(bundle)
    twin.set_state(epoch=epoch, baseline=target)
    return target


def test_a_sealed_bundle_is_installed_tried_and_confirmed_and_a_restart_needs_no_platform(
    sealed: Workshop, twin: PlatformTwin
) -> None:
    two = weighted(sealed, "2.0")
    offered(sealed, twin, two, 2)
    agent = sealed.agent()
    agent.sync()
    play(agent, 12)
    agent.sync()
    assert agent.slots.running.version == "2.0"
    assert agent.slots.running.state is SlotState.CONFIRMED
    assert agent.counters.unverified_frames == 0
    assert in_clear(sealed.state, two) == []
    agent.close()
    twin.wrong.away = True
    again = sealed.agent()
    play(again, 3)
    assert again.playback.digest == two.digest


def test_no_weights_in_clear_after_install_delta_exchange_roll_back_and_a_broken_download(
    sealed: Workshop, twin: PlatformTwin
) -> None:
    two, three, bad = weighted(sealed, "2.0"), weighted(sealed, "3.0", 1), weighted(sealed, "4.0", 2)
    base = offered(sealed, twin, two, 2)
    agent = sealed.agent()
    agent.sync()
    play(agent, 12)
    rollout = {"id": "r1", "salt": "s", "basis_points": 10_000, "target": sealed.released(three).model_dump()}
    assert twin.release_delta(two.data, two.digest, three.data, three.digest) < 0.5 * len(three.data)
    twin.set_state(epoch=3, baseline=base, rollouts=[rollout])
    agent.sync()
    play(agent, 12)
    agent.sync()
    assert agent.playback.digest == three.digest
    assert agent.status()["deltas"] == 1
    assert in_clear(sealed.state, two, three) == []
    twin.set_state(epoch=4, baseline=base)  # exchange back
    agent.sync()
    play(agent, 3)
    agent.sync()
    assert agent.playback.digest == two.digest
    twin.wrong.break_off = [20_000]
    target = sealed.released(bad)
    twin.set_state(epoch=5, baseline=target)
    agent.sync()
    assert in_clear(sealed.state, two, three, bad) == []
    agent.sync()
    play(agent, 4)
    agent.sync()
    assert in_clear(sealed.state, two, three, bad) == []


def test_a_delta_that_does_not_open_costs_its_bytes_and_the_whole_bundle_is_taken(
    sealed: Workshop, twin: PlatformTwin
) -> None:
    two, three = weighted(sealed, "2.0"), weighted(sealed, "3.0", 1)
    offered(sealed, twin, two, 2)
    agent = sealed.agent()
    agent.sync()
    play(agent, 12)
    agent.sync()
    twin.release_delta(two.data, two.digest, three.data, three.digest)
    assert twin.sealer is not None
    twin.sealer.revoked = {path for path in twin.sealer.keys if path.endswith(".ede")}
    offered(sealed, twin, three, 3)
    agent.sync()
    play(agent, 12)
    assert agent.playback.digest == three.digest
    assert agent.status()["deltas"] == 0


def test_without_a_key_the_running_bundle_goes_on_and_the_cause_is_told(sealed: Workshop, twin: PlatformTwin) -> None:
    two = weighted(sealed, "2.0")
    target = offered(sealed, twin, two, 2)
    assert twin.sealer is not None
    twin.sealer.revoked.add(target.path)
    agent = sealed.agent()
    for _ in range(3):
        agent.sync()
        play(agent, 2)
    agent.sync()
    assert agent.playback.digest == sealed.factory.digest
    assert ("refused", "no_key") in twin.installs
    twin.sealer.revoked.clear()
    agent.sync()
    play(agent, 12)
    assert agent.playback.digest == two.digest


def test_an_envelope_of_another_bundle_is_refused(sealed: Workshop, twin: PlatformTwin) -> None:
    two, three = weighted(sealed, "2.0"), weighted(sealed, "3.0", 1)
    offered(sealed, twin, two, 2)
    other = sealed.released(three)
    assert twin.sealer is not None
    assert sealed.tee is not None
    twin.wrong_envelope = twin.sealer.envelope(other.path, sealed.tee.public().sealing)
    agent = sealed.agent()
    for _ in range(3):
        agent.sync()
    assert agent.playback.digest == sealed.factory.digest
    assert ("refused", Cause.NO_KEY.value) in twin.installs
    assert list((sealed.state / "bundles").glob("*.els")) == []


def test_a_trusted_environment_that_is_dead_at_the_start_costs_the_bundle_and_heals(
    sealed: Workshop, twin: PlatformTwin
) -> None:
    two = weighted(sealed, "2.0")
    offered(sealed, twin, two, 2)
    agent = sealed.agent()
    agent.sync()
    play(agent, 12)
    agent.close()
    working, sealed.tee = sealed.tee, DeadTee()
    again = sealed.agent()
    play(again, 3)
    assert again.playback.digest == sealed.factory.digest
    assert again.slots.rollbacks[-1].cause == Cause.TEE_FAILED.value
    for _ in range(3):
        again.sync()
        play(again, 2)
    assert ("rolled_back", "tee_failed") in twin.installs
    again.close()
    sealed.tee = working
    healed = sealed.agent()
    healed.sync()
    play(healed, 12)
    healed.sync()
    assert healed.playback.digest == two.digest
    assert healed.slots.running.state is SlotState.CONFIRMED


def test_the_death_of_the_trusted_environment_never_touches_a_bundle_that_plays(
    sealed: Workshop, twin: PlatformTwin
) -> None:
    two = weighted(sealed, "2.0")
    offered(sealed, twin, two, 2)
    agent = sealed.agent()
    agent.sync()
    play(agent, 12)
    assert isinstance(sealed.tee, TeeProcess)
    assert sealed.tee.process_id is not None
    os.kill(sealed.tee.process_id, signal.SIGKILL)
    play(agent, 250)
    assert agent.playback.digest == two.digest
    assert agent.counters.plain_frames == 0


class DeadTee(Tee):
    """Does not answer, and counts who asked."""

    def __init__(self) -> None:
        self.asked = 0

    def _dead(self, *given: object) -> memoryview:
        self.asked += 1
        raise TeeUnavailable("dead")

    public = admit = open = raise_floor = sign = _dead  # type: ignore[assignment]  # every question fails alike


def test_a_trial_that_fails_after_a_restart_asks_no_trusted_environment_from_a_frame(
    sealed: Workshop, twin: PlatformTwin
) -> None:
    two, bad = weighted(sealed, "2.0"), sealed.bundle("3.0", errors_from=4)
    offered(sealed, twin, two, 2)
    agent = sealed.agent(loop=LoopSettings(trial=TrialLimits(frames=6)))
    agent.sync()
    play(agent, 8)
    agent.sync()
    offered(sealed, twin, bad, 3)
    agent.sync()
    play(agent, 2)
    agent.settle()
    assert agent.on_trial
    again = sealed.agent()  # a crash: no close
    assert again.on_trial
    again._parts.bundles.store.tee = dead = DeadTee()
    play(again, 20)
    assert again.playback.digest == two.digest
    assert dead.asked == 0


def test_when_the_bundle_before_cannot_be_opened_a_failing_trial_leads_to_the_built_in_one_and_back(
    sealed: Workshop, twin: PlatformTwin
) -> None:
    two, bad = weighted(sealed, "2.0"), sealed.bundle("3.0", errors_from=4)
    base = offered(sealed, twin, two, 2)
    agent = sealed.agent(loop=LoopSettings(trial=TrialLimits(frames=6)))
    agent.sync()
    play(agent, 8)
    agent.sync()
    rollout = {"id": "r1", "salt": "s", "basis_points": 10_000, "target": sealed.released(bad).model_dump()}
    twin.set_state(epoch=3, baseline=base, rollouts=[rollout])
    agent.sync()
    play(agent, 2)
    agent.settle()
    again = sealed.agent()
    again._changeover._fallback = None  # as if it could not be opened at the start
    play(again, 20)
    assert again.playback.digest == sealed.factory.digest
    assert again.slots.rollbacks[-1].cause == Cause.DRIVER_ERRORS.value
    again.sync()
    play(again, 2)
    again.sync()
    assert again.playback.digest == two.digest


def test_the_trusted_environment_learns_the_floor_and_refuses_older_bundles_itself(
    sealed: Workshop, twin: PlatformTwin
) -> None:
    five = weighted(sealed, "5.0", epoch=5)
    offered(sealed, twin, five, 2)
    agent = sealed.agent()
    agent.sync()
    play(agent, 12)
    agent.sync()
    assert sealed.tee is not None
    assert sealed.tee.raise_floor(0) == 5


def test_a_device_may_insist_on_sealed_bundles(workshop: Workshop, twin: PlatformTwin) -> None:
    workshop.sealed_only = True
    offered(workshop, twin, weighted(workshop, "2.0"), 2)
    agent = workshop.agent()
    for _ in range(3):
        agent.sync()
    assert agent.playback.digest == workshop.factory.digest
    assert ("refused", "untrusted") in twin.installs


def test_a_device_without_a_trusted_environment_refuses_sealed_bundles_with_a_cause(
    workshop: Workshop, twin: PlatformTwin
) -> None:
    twin.sealer = Sealer()
    offered(workshop, twin, weighted(workshop, "2.0"), 2)
    agent = workshop.agent()
    for _ in range(3):
        agent.sync()
    assert agent.playback.digest == workshop.factory.digest
    assert ("refused", "tee_failed") in twin.installs


def test_a_stored_file_under_another_name_or_of_another_device_does_not_open(
    sealed: Workshop, twin: PlatformTwin, tmp_path: Path
) -> None:
    """Somebody writes to the disk of a device that is switched off."""
    two, three = weighted(sealed, "2.0"), weighted(sealed, "3.0", 1)
    offered(sealed, twin, two, 2)
    agent = sealed.agent()
    agent.sync()
    play(agent, 12)
    agent.close()
    mine = sealed.state / "bundles" / f"{two.digest}.els"
    stored, sealer = mine.read_bytes(), Sealer()
    assert sealed.tee is not None
    path, swapped = sealer.bundle(three.data, three.digest, 1)
    own = sealed.tee.admit(swapped, sealer.envelope(path, sealed.tee.public().sealing) or b"", "npu-4t")
    stranger = Tee(tmp_path / "stranger", CLASSES)
    path, foreign = sealer.bundle(two.data, two.digest, 1)
    theirs = stranger.admit(foreign, sealer.envelope(path, stranger.public().sealing) or b"", "npu-4t")
    for wrong in (own, theirs, foreign, stored[:-1], stored[:-1] + b"\0", b"", two.data):
        mine.write_bytes(wrong)
        agent = sealed.agent()
        play(agent, 2)
        assert agent.playback.digest == sealed.factory.digest
        assert agent.slots.rollbacks[-1].cause == Cause.DAMAGED.value
        assert agent.counters.unverified_frames == 0
        for name in ("slots.json", "slots.spare.json"):
            (sealed.state / name).unlink()
        mine.write_bytes(stored)
        agent = sealed.agent()
        agent.sync()
        play(agent, 12)
        agent.close()
        assert agent.playback.digest == two.digest
