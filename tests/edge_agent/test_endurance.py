"""A device that is hurt at any moment still has a good bundle, and one that runs long does not grow."""

from __future__ import annotations

import gc
import itertools
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import pytest

from edge_agent.agent import Agent
from edge_agent.fleet.status import resident_bytes
from edge_agent.outbox import Outbox
from edge_agent.sinks import Mp4Sink
from edge_agent.slot_store import read_slots
from tests.edge_agent.workshop import Workshop, play
from tests.support.agent_twin import FaultyDisk, PictureSource, PowerCut
from tests.support.platform_twin import PlatformTwin


def live(workshop: Workshop) -> Agent:
    """Start, update, play the trial through, go on."""
    agent = workshop.agent()
    agent.sync()
    play(agent, 12)
    agent.sync()
    return agent


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", [{}, {"errors_from": 2}], ids=["confirmed", "rolled back"])
def test_a_power_cut_at_any_operation_of_an_update_bricks_no_device(
    tmp_path: Path, twin: PlatformTwin, behaviour: dict[str, int]
) -> None:
    counted = FaultyDisk()
    (tmp_path / "home").mkdir()
    home = Workshop(tmp_path / "home", twin, disk=counted)
    bundle = home.bundle("2.0", **behaviour)
    twin.set_state(epoch=2, baseline=home.released(bundle))
    live(home)
    assert counted.operations > 20

    for cut in range(1, counted.operations + 1):
        folder = tmp_path / f"cut{cut}"
        folder.mkdir()
        device = Workshop(folder, twin, disk=FaultyDisk(cut_at=cut, seed=cut))
        device.factory, device.loader = home.factory, home.loader
        with pytest.raises(PowerCut):
            live(device)
        device.disk = FaultyDisk()
        again = live(device)
        again.sync()
        expected = home.factory.digest if behaviour else bundle.digest
        assert again.playback.digest == expected, f"operation {cut}: {counted.log[cut - 1]}"
        assert again.slots.security_floor == (0 if behaviour else 1)
        assert again.status()["unverified_bytes_run"] == 0
        device.close()
    home.close()


def test_a_restart_during_a_trial_goes_on_with_it_and_can_still_roll_back(
    workshop: Workshop, twin: PlatformTwin
) -> None:
    twin.set_state(epoch=2, baseline=workshop.released(workshop.bundle("2.0")))
    agent = workshop.agent()
    agent.sync()
    play(agent, 3)
    again = workshop.agent()
    assert again.on_trial
    assert again.playback.digest != workshop.factory.digest
    play(again, 10)
    assert again.slots.security_floor == 1


def test_a_device_that_is_switched_off_in_order_keeps_its_trial(workshop: Workshop, twin: PlatformTwin) -> None:
    bundle = workshop.bundle("2.0")
    twin.set_state(epoch=2, baseline=workshop.released(bundle))
    agent = workshop.agent()
    agent.sync()
    play(agent, 1)
    for _ in range(8):
        agent.close()
        agent = workshop.agent()
    assert agent.on_trial
    assert agent.playback.digest == bundle.digest


def test_a_device_that_keeps_crashing_in_a_trial_gives_it_up(workshop: Workshop, twin: PlatformTwin) -> None:
    twin.set_state(epoch=2, baseline=workshop.released(workshop.bundle("2.0")))
    agent = workshop.agent()
    agent.sync()
    play(agent, 1)
    for _ in range(4):
        agent = workshop.agent()
    agent.sync()

    assert agent.playback.digest == workshop.factory.digest
    assert ("rolled_back", "crash") in twin.installs


def test_a_stored_bundle_that_was_damaged_is_left_at_the_next_start(workshop: Workshop, twin: PlatformTwin) -> None:
    bundle = workshop.bundle("2.0")
    twin.set_state(epoch=2, baseline=workshop.released(bundle))
    live(workshop)
    stored = workshop.state / "bundles" / f"{bundle.digest}.elb"
    data = bytearray(stored.read_bytes())
    data[len(data) // 2] ^= 1
    stored.unlink()
    stored.write_bytes(bytes(data))

    agent = workshop.agent()
    agent.sync()
    play(agent, 3)
    assert agent.playback.digest == workshop.factory.digest
    assert ("rolled_back", "damaged") in twin.installs


def test_a_full_disk_puts_an_update_off_and_never_stops_a_frame(workshop: Workshop, twin: PlatformTwin) -> None:
    disk = workshop.disk = FaultyDisk()
    bundle = workshop.bundle("2.0")
    agent = workshop.agent()
    twin.set_state(epoch=2, baseline=workshop.released(bundle))
    disk.full = True
    agent.sync()
    play(agent, 30)
    assert agent.playback.digest == workshop.factory.digest
    assert agent.counters.upscaled == 30

    disk.full = False
    again = live(workshop)
    assert again.playback.digest == bundle.digest


def test_a_roll_back_on_a_full_disk_takes_effect_at_once_and_is_written_later(
    workshop: Workshop, twin: PlatformTwin
) -> None:
    disk = workshop.disk = FaultyDisk()
    twin.set_state(epoch=2, baseline=workshop.released(workshop.bundle("2.0", errors_from=0)))
    agent = workshop.agent()
    agent.sync()
    play(agent, 1)
    disk.full = True
    play(agent, 5)
    assert agent.playback.digest == workshop.factory.digest
    agent.sync()
    record = workshop.state / "slots.json"
    assert read_slots(record).on_trial
    disk.full = False
    agent.sync()
    assert not read_slots(record).on_trial


def files_below(folder: Path) -> int:
    return sum(1 for path in folder.rglob("*") if path.is_file())


@dataclass(frozen=True)
class Lived:
    """What a long run left: frames played, bytes of memory and files more than after its start, pieces of film."""

    frames: int
    memory: int
    files: int
    pieces: int


def live_long(folder: Path) -> Lived:
    """Eight hours of frames and syncs; memory is that of the whole process."""
    with PlatformTwin() as twin:
        workshop = Workshop(folder, twin)
        levels = itertools.cycle([20, 30, 40, 200, 220])
        sink = Mp4Sink(folder / "out" / "out.mp4", preset="ultrafast", piece_frames=100, keep=2)
        agent = workshop.agent(PictureSource(lambda index: next(levels)), sink)

        def hour() -> None:
            for _ in range(10):
                play(agent, 50, workshop.clock, seconds=60)
                agent.sync()
            twin.batches.clear()
            twin.reports.clear()
            twin.segments.clear()
            gc.collect()

        for _ in range(2):
            hour()
        memory, files = resident_bytes(), files_below(workshop.state)
        for _ in range(6):
            hour()
        agent.close()
        agent.sync()
        grown = resident_bytes() - memory
        more = files_below(workshop.state) - files
        workshop.close()
    return Lived(agent.counters.frames, grown, more, files_below(folder / "out"))


@pytest.mark.slow
def test_thousands_of_frames_and_syncs_leave_memory_and_files_where_they_were(tmp_path: Path) -> None:
    """In a process of its own: what other tests left in this one must not count as the agent's."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        lived = alone.submit(live_long, tmp_path).result(timeout=240)
    assert lived.frames == 4_000
    assert lived.memory < 8_000_000
    assert lived.files <= 2
    assert lived.pieces == 2


@pytest.mark.slow
def test_a_platform_that_is_away_for_days_costs_a_bounded_outbox(workshop: Workshop, twin: PlatformTwin) -> None:
    levels = itertools.cycle([20, 30, 40, 200, 220])
    agent = workshop.agent(PictureSource(lambda index: next(levels)))
    twin.wrong.away = True
    for _ in range(30):
        play(agent, 30, workshop.clock, seconds=2_000)
    waiting = Outbox(workshop.state / "outbox", workshop.disk)
    assert 0 < len(waiting) <= 512
    twin.wrong.away = False
    for _ in range(60):
        if agent.status()["outbox"]:
            agent.sync()
    assert len(twin.reports) > 15
    assert int(str(agent.status()["outbox"])) == 0
