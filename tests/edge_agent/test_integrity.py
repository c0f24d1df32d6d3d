"""Weights that change in memory after they were verified: noticed within a hundred frames, and left."""

from __future__ import annotations

from pathlib import Path

from contracts.bundle import Bundle
from edge_agent.integrity import WeightGuard
from edge_agent.limits import LIMITS
from edge_agent.slot_store import read_slots
from tests.edge_agent.workshop import Workshop, play
from tests.support.agent_twin import ToyBundle
from tests.support.platform_twin import PlatformTwin


def flip(path: Path) -> None:
    """Change one bit of the weights in place: every mapping of the file sees it."""
    data = path.read_bytes()
    at = data.index(b"WEIGHTS") + 20
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes([data[at] ^ 4]))


def updated(workshop: Workshop, twin: PlatformTwin) -> tuple[ToyBundle, Path]:
    bundle = workshop.bundle("2.0")
    twin.set_state(epoch=2, baseline=workshop.released(bundle))
    return bundle, workshop.state / "bundles" / f"{bundle.digest}.elb"


def test_changed_weights_are_left_within_a_hundred_frames_and_the_cause_is_told(
    workshop: Workshop, twin: PlatformTwin
) -> None:
    bundle, stored = updated(workshop, twin)
    agent = workshop.agent()
    agent.sync()
    play(agent, 20)
    agent.sync()
    assert agent.playback.digest == bundle.digest
    flip(stored)

    play(agent, LIMITS.guard_frames)
    assert agent.playback.digest == workshop.factory.digest
    assert agent.counters.upscaled == 20 + LIMITS.guard_frames, "and no frame was lost"
    agent.sync()
    assert ("rolled_back", "damaged") in twin.installs
    assert read_slots(workshop.state / "slots.json").active == ""


def test_a_bundle_that_changes_during_its_trial_is_never_confirmed_later(
    workshop: Workshop, twin: PlatformTwin
) -> None:
    _, stored = updated(workshop, twin)
    agent = workshop.agent()
    play(agent, LIMITS.guard_frames - 5)
    agent.sync()
    play(agent, 2)
    flip(stored)
    play(agent, 30)
    assert not agent.on_trial
    assert agent.playback.digest == workshop.factory.digest
    assert agent.slots.security_floor == 0


def test_a_built_in_bundle_that_changes_in_memory_is_read_again(workshop: Workshop) -> None:
    agent = workshop.agent()
    play(agent, 1)
    good = workshop.factory.path.read_bytes()
    flip(workshop.factory.path)
    whole = workshop.factory.path.with_suffix(".new")
    whole.write_bytes(good)
    whole.replace(workshop.factory.path)
    play(agent, LIMITS.guard_frames)
    assert agent.counters.upscaled == 1 + LIMITS.guard_frames
    assert agent.status()["unverified_bytes_run"] == 0


def test_without_any_whole_bundle_frames_are_enlarged_plainly(workshop: Workshop) -> None:
    agent = workshop.agent()
    play(agent, 1)
    flip(workshop.factory.path)
    play(agent, 2 * LIMITS.guard_frames)
    assert agent.counters.frames == 1 + 2 * LIMITS.guard_frames
    assert agent.counters.plain_frames > LIMITS.guard_frames


def test_the_guard_keeps_the_built_in_bundle_and_the_last_ones(workshop: Workshop) -> None:
    guard = WeightGuard(kept=3)
    bundles = [Bundle.open(workshop.bundle(f"{index}.0").path) for index in range(4)]
    for bundle in bundles:
        guard.watch(bundle)
    for bundle in bundles:
        flip(bundle.path)
    assert [guard.intact(bundle.digest) for bundle in bundles] == [False, True, False, False]


def test_a_changed_bundle_that_is_offered_again_is_fetched_and_verified_again(
    workshop: Workshop, twin: PlatformTwin
) -> None:
    """What is mapped in memory is changed too: the same bytes must not come back by a short cut."""
    bundle, stored = updated(workshop, twin)
    agent = workshop.agent()
    agent.sync()
    play(agent, 20)
    agent.sync()
    flip(stored)
    play(agent, LIMITS.guard_frames)
    assert agent.playback.digest == workshop.factory.digest

    target = workshop.released(bundle).model_dump()
    twin.set_state(epoch=3, rollouts=[{"id": "again", "target": target, "salt": "s", "basis_points": 10_000}])
    agent.sync()
    play(agent, 20)
    agent.sync()
    assert agent.playback.digest == bundle.digest
    assert stored.read_bytes() == bundle.data
    play(agent, 2 * LIMITS.guard_frames)
    assert agent.playback.digest == bundle.digest
    assert agent.status()["unverified_bytes_run"] == 0
