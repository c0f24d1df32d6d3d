"""Downloads on bad networks: what is proved is kept, what is tampered is refused, nothing goes on for ever."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contracts.bundle.chunks import Chunks
from contracts.bundle.delta import delta_path
from edge_agent.compose import settings_of
from edge_agent.config import load_config
from edge_agent.errors import Cancelled, Withdrawn
from edge_agent.limits import LIMITS
from edge_agent.pace import Cap, StillWanted
from edge_agent.slots import SlotState
from tests.edge_agent.workshop import Workshop, play
from tests.support.agent_twin import ToyBundle
from tests.support.platform_twin import PlatformTwin

PART = 32 * 1024


def padded(workshop: Workshop, version: str, **behaviour: object) -> ToyBundle:
    """A bundle of a few parts."""
    return workshop.bundle(version, padding="".join(f"{i:05d}" for i in range(20_000)), **behaviour)


@pytest.fixture
def parted(workshop: Workshop, twin: PlatformTwin) -> ToyBundle:
    """A released bundle whose parts the signed metadata name."""
    twin.with_chunks = True
    bundle = padded(workshop, "2.0")
    assert len(Chunks.of(bundle.data).hashes) >= 4
    twin.set_state(epoch=2, baseline=workshop.released(bundle))
    return bundle


def test_a_cut_costs_the_part_that_was_cut_and_no_other(
    workshop: Workshop, twin: PlatformTwin, parted: ToyBundle
) -> None:
    twin.wrong.break_off = [2 * PART + 100, 100, PART + 5]
    agent = workshop.agent()
    agent.sync()
    play(agent, 10)
    assert agent.playback.digest == parted.digest
    assert twin.ranges == [f"bytes={2 * PART}-", f"bytes={2 * PART}-", f"bytes={3 * PART}-"]


def test_a_download_goes_on_after_a_restart_with_what_was_proved(
    workshop: Workshop, twin: PlatformTwin, parted: ToyBundle
) -> None:
    """rauc#1517: an hour of a bad network must not be thrown away."""
    twin.wrong.break_off = [PART + 10] + [10] * (LIMITS.download_attempts - 1)
    workshop.agent().sync()
    (kept,) = (workshop.state / "tuf" / "parts").iterdir()
    assert kept.stat().st_size == PART
    with kept.open("ab") as file:
        file.write(b"torn by a power cut")

    again = workshop.agent()
    twin.ranges.clear()
    again.sync()
    play(again, 10)
    assert twin.ranges == [f"bytes={PART}-"]
    assert again.playback.digest == parted.digest


def test_a_tampered_part_is_fetched_again_and_then_refused(
    workshop: Workshop, twin: PlatformTwin, parted: ToyBundle
) -> None:
    twin.wrong.flip_target = True
    agent = workshop.agent()
    agent.sync()
    agent.sync()
    assert twin.installs == [("refused", "untrusted")]
    assert list((workshop.state / "tuf" / "parts").iterdir()) == []
    twin.wrong.flip_target = False
    agent.sync()
    play(agent, 10)
    assert agent.playback.digest == parted.digest


def test_a_missing_file_ends_a_resumed_download_instead_of_looping(
    workshop: Workshop, twin: PlatformTwin, parted: ToyBundle
) -> None:
    """rauc-hawkbit-updater#158: 404 and resume made an endless loop that nothing could stop."""
    twin.wrong.break_off = [PART + 10] + [10] * (LIMITS.download_attempts - 1)
    agent = workshop.agent()
    agent.sync()
    asked = sum(count for path, count in twin.requests.items() if "/targets/" in path)
    twin.wrong.statuses["/releases/tuf/targets/"] = [404] * 50
    agent.sync()
    assert sum(count for path, count in twin.requests.items() if "/targets/" in path) == asked + 1
    assert agent.counters.sync_errors == 2


def test_transient_answers_are_tried_again_a_few_times_only(
    workshop: Workshop, twin: PlatformTwin, parted: ToyBundle
) -> None:
    twin.wrong.statuses["/releases/tuf/targets/"] = [503] * 50
    agent = workshop.agent()
    agent.sync()
    assert len(twin.wrong.statuses["/releases/tuf/targets/"]) == 50 - LIMITS.download_attempts
    twin.wrong.statuses["/releases/tuf/targets/"] = [503]
    agent.sync()
    play(agent, 10)
    assert agent.playback.digest == parted.digest


def test_a_range_that_cannot_be_satisfied_starts_afresh(
    workshop: Workshop, twin: PlatformTwin, parted: ToyBundle
) -> None:
    twin.wrong.break_off = [PART + 10] + [10] * (LIMITS.download_attempts - 1)
    agent = workshop.agent()
    agent.sync()
    twin.wrong.statuses["/releases/tuf/targets/"] = [416]
    agent.sync()
    play(agent, 10)
    assert agent.playback.digest == parted.digest


def test_metadata_without_parts_still_lead_to_the_bundle(workshop: Workshop, twin: PlatformTwin) -> None:
    bundle = padded(workshop, "2.0")
    twin.set_state(epoch=2, baseline=workshop.released(bundle))
    twin.wrong.break_off = [1_000]
    agent = workshop.agent()
    agent.sync()
    play(agent, 10)
    assert agent.playback.digest == bundle.digest
    assert twin.ranges == ["bytes=1000-"]


# deltas


def released_pair(workshop: Workshop, twin: PlatformTwin) -> tuple[ToyBundle, ToyBundle]:
    """Two bundles, the first confirmed on the device, and the delta between them."""
    twin.with_chunks = True
    old, new = padded(workshop, "2.0"), padded(workshop, "3.0")
    twin.set_state(epoch=2, baseline=workshop.released(old))
    agent = workshop.agent()
    agent.sync()
    play(agent, 10)
    agent.sync()
    assert agent.playback.digest == old.digest
    assert twin.release_delta(old.data, old.digest, new.data, new.digest) < 0.2 * len(new.data)
    twin.set_state(epoch=3, baseline=workshop.released(new))
    return old, new


def test_a_device_with_the_base_fetches_the_delta_and_not_the_bundle(workshop: Workshop, twin: PlatformTwin) -> None:
    _, new = released_pair(workshop, twin)
    twin.requests.clear()
    agent = workshop.agent()
    agent.sync()
    play(agent, 10)
    assert agent.playback.digest == new.digest
    assert agent.status()["deltas"] == 1
    asked = [path for path in twin.requests if "/targets/" in path]
    assert [path.rsplit(".", 1)[1] for path in asked] == ["eld"]


def test_a_device_with_another_base_fetches_the_whole_bundle(workshop: Workshop, twin: PlatformTwin) -> None:
    twin.with_chunks = True
    old, new = padded(workshop, "2.0"), padded(workshop, "3.0")
    twin.release_delta(old.data, old.digest, new.data, new.digest)
    twin.set_state(epoch=2, baseline=workshop.released(new))
    agent = workshop.agent()
    agent.sync()
    play(agent, 10)
    assert agent.playback.digest == new.digest
    assert agent.status()["deltas"] == 0


def test_a_delta_that_does_not_lead_to_the_bundle_costs_a_whole_download(
    workshop: Workshop, twin: PlatformTwin
) -> None:
    """A delta is never trusted, not even a signed one: its result is."""
    old, new = released_pair(workshop, twin)
    other = padded(workshop, "9.9")
    twin.release_delta(old.data, old.digest, other.data, new.digest)
    agent = workshop.agent()
    agent.sync()
    play(agent, 10)
    assert agent.playback.digest == new.digest
    assert agent.status()["deltas"] == 0


def test_a_delta_that_hardly_saves_is_not_used(workshop: Workshop, twin: PlatformTwin) -> None:
    old, new = released_pair(workshop, twin)
    twin.tuf.add(delta_path(new.digest, old.digest), bytes(int(0.9 * len(new.data))))
    agent = workshop.agent()
    agent.sync()
    play(agent, 10)
    assert agent.playback.digest == new.digest
    assert agent.status()["deltas"] == 0


# stopping


def test_a_bundle_that_is_withdrawn_during_its_download_is_not_installed_and_the_platform_hears_it(
    workshop: Workshop, twin: PlatformTwin, parted: ToyBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """hawkBit#952 and others: a cancel has one clear outcome."""
    object.__setattr__(LIMITS, "wanted_s", 0.0)
    agent = workshop.agent()
    agent._parts.platform.keeper.poll()  # type: ignore[union-attr]  # the offer is known
    served = twin.get

    def get(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        if "/targets/" in path:
            twin.set_state(epoch=3)
        return served(path, headers)

    monkeypatch.setattr(twin, "get", get)
    try:
        agent.sync()
    finally:
        object.__setattr__(LIMITS, "wanted_s", 10.0)
    play(agent, 3)
    agent.sync()
    assert agent.slots.a.state is SlotState.EMPTY
    assert twin.installs == [("refused", "withdrawn")]
    assert agent.playback.digest == workshop.factory.digest


def test_a_device_that_is_switched_off_stops_its_download_and_goes_on_later(
    workshop: Workshop, twin: PlatformTwin, parted: ToyBundle
) -> None:
    agent = workshop.agent()
    agent.end_soon()
    agent.sync()
    agent.close()
    assert twin.installs == []
    again = workshop.agent()
    again.sync()
    play(again, 10)
    assert again.playback.digest == parted.digest


def test_a_bundle_that_is_withdrawn_after_its_trial_began_is_rolled_back_not_cancelled(
    workshop: Workshop, twin: PlatformTwin, parted: ToyBundle
) -> None:
    agent = workshop.agent()
    agent.sync()
    play(agent, 2)
    twin.set_state(epoch=3)
    agent.sync()
    play(agent, 1)
    agent.sync()
    assert ("rolled_back", "withdrawn") in twin.installs


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_the_cap_holds_over_a_download_and_a_still_device_owes_nothing() -> None:
    time = Time()
    cap = Cap(1_000.0, time.monotonic, time.sleep)
    for _ in range(10):
        cap.took(500)
    assert time.now == pytest.approx(5.0)
    time.now = 100.0
    cap.took(500)
    assert time.now == pytest.approx(100.5), "what was not used is not saved up"


def test_a_download_under_a_cap_can_be_stopped_at_once() -> None:
    time = Time()
    cap = Cap(1.0, time.monotonic, time.sleep)

    def going() -> None:
        if time.now > 2:
            raise Cancelled("enough")

    with pytest.raises(Cancelled):
        cap.took(3_600, going)
    assert time.now < 4


def test_the_platform_is_asked_now_and_then_and_its_no_is_final() -> None:
    time, asked = Time(), []
    still = StillWanted(lambda: bool(asked.append(time.now)) or len(asked) < 3, 10.0, time.monotonic)
    for _ in range(29):
        still()
        time.now += 1
    assert asked == [10.0, 20.0]
    time.now = 30.0
    for _ in range(2):
        with pytest.raises(Withdrawn):
            still()
    assert asked == [10.0, 20.0, 30.0]


def test_the_cap_is_a_setting(tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    settings = {"state_dir": "d", "factory_bundle": "b.elb", "source": "s.mp4", "tags": {"device_class": "npu-4t"}}
    path.write_text(json.dumps({**settings, "download_kilobytes_s": 250}))
    assert settings_of(load_config(path, {})).download_bytes_per_s == 250_000
