"""Whole devices on a disk that fails: a sample of what `edgeloop bench updates` does everywhere, and its own eyes."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from benchmarks.updating.crashes import crash_everywhere
from benchmarks.updating.life import Device, World, live_from, settled
from edge_agent.disk import Disk
from edge_agent.slot_store import read_slots
from tests.support.agent_twin import PowerCut
from tests.support.crash_disk import CrashDisk, Failure


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "made").mkdir()
    return World(tmp_path / "made")


@pytest.mark.slow
@pytest.mark.parametrize("can_exchange", [True, False], ids=["exchange", "renames"])
def test_a_device_outlives_every_kind_of_failure(world: World, tmp_path: Path, can_exchange: bool) -> None:
    """No bundle lost, no floor lower, no cause forgotten or untold, no device that stays behind."""
    found = crash_everywhere(world, tmp_path, list(Failure), can_exchange, stride=31)
    assert found.runs > 60
    assert found.all_well, found


@pytest.mark.slow
def test_a_device_with_sealed_bundles_outlives_them_too_and_nothing_lies_in_clear(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    found = crash_everywhere(World(tmp_path / "made", sealed=True), tmp_path, list(Failure), stride=31)
    assert found.runs > 60
    assert found.all_well, found


@pytest.mark.slow
def test_the_crash_test_sees_a_device_whose_flushes_do_nothing(world: World, tmp_path: Path) -> None:
    found = crash_everywhere(world, tmp_path, [Failure.LOSE], stride=41, flushes=False)
    assert found.lowered
    assert found.forgotten


def test_a_cause_survives_a_crash_between_the_record_and_its_news(world: World, tmp_path: Path) -> None:
    """hawkBit and balena users see devices on an old bundle and no reason; here the record tells it again."""
    folder = tmp_path / "device"
    folder.mkdir()
    device = Device(world, folder, Disk())
    device.start()
    world.want("2.0")
    device.turn()
    world.want("2.0", "3.0")
    assert device.agent is not None
    device.agent.sync()
    device.agent.step()
    device.agent.step()
    device.agent.step()
    device.agent.step()
    device.agent._changeover._slots.flush()  # the record is written, and then the power goes
    assert read_slots(folder / "slots.json").untold

    device.start()
    device.turn()
    told = [(stage, cause) for stage, cause, _ in device.told]
    assert told.count(("rolled_back", "driver_errors")) == 1
    assert not read_slots(folder / "slots.json").untold


class Watch(Disk):
    """The real disk, which knows whether it is at work."""

    def __init__(self) -> None:
        super().__init__()
        self.at_work = threading.local()

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or name in ("durable", "at_work"):
            return found

        def watched(*given: Any, **named: Any) -> Any:
            before = getattr(self.at_work, "depth", 0)
            self.at_work.depth = before + 1
            try:
                return found(*given, **named)
            finally:
                self.at_work.depth = before

        return watched


WRITES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.symlink", "os.link", "os.truncate"}


def test_nothing_of_a_device_is_written_past_its_disk(world: World, tmp_path: Path) -> None:
    """Libraries included: what the disk does not see, no crash test can break."""
    folder = tmp_path / "device"
    folder.mkdir()
    disk = Watch()
    past: list[str] = []
    active = True

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if not active or getattr(disk.at_work, "depth", 0) or not given or not str(given[0]).startswith(str(folder)):
            return
        writing = event == "open" and isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if event in WRITES or writing:
            past.append(f"{event} {given[0]}")

    sys.addaudithook(hook)
    device = Device(world, folder, disk)
    device.start()
    live_from(device, 0)
    active = False
    assert settled(device)
    assert past == []


def test_a_power_cut_is_not_swallowed_by_anything_that_catches_errors(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "device"
    folder.mkdir()
    device = Device(world, folder, CrashDisk(at=120))
    world.want("2.0")
    device.start()
    with pytest.raises(PowerCut):
        live_from(device, 0)
