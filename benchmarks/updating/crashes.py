"""Crash at every operation of a device's life, start it again, and see whether anything was lost.

For each operation and each way to fail: live until the disk fails, lose what was not flushed, start again with the
disk well, look, then live on to the end. A failure that is no crash (disk full, one refused operation) lets the
process go on to the end of the phase; then it is started again.
"""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.updating.life import Device, World, live_from, settled
from edge_agent.errors import AgentError
from tests.support.agent_twin import PowerCut
from tests.support.crash_disk import CrashDisk, Failure

EXTRA_TURNS = 3


@dataclass
class Found:
    """What the runs showed. Every list names operation and failure."""

    runs: int = 0
    operations: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    bricked: list[str] = field(default_factory=list)
    lowered: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    untold: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    miscounted: list[str] = field(default_factory=list)
    leaked: list[str] = field(default_factory=list)
    """Devices with weights of a sealed bundle in clear on their disk, right after the failure or at the end."""

    @property
    def all_well(self) -> bool:
        device = self.bricked or self.lowered or self.forgotten or self.untold or self.stuck
        return not (device or self.miscounted or self.leaked)


def crash_everywhere(
    world: World,
    folder: Path,
    failures: Sequence[Failure],
    can_exchange: bool = True,
    tell: Callable[[float], None] = lambda share: None,
    stride: int = 1,
    flushes: bool = True,
) -> Found:
    """Run a life for every operation (every `stride`-th) and every failure."""
    found = Found()
    logging.disable(logging.CRITICAL)
    try:
        counted = CrashDisk(can_exchange=can_exchange)
        _live(world, folder / "counted", counted)
        found.operations = counted.operations
        found.kinds = Counter(line.split(" ")[0] for line in counted.log)
        points = range(1, counted.operations + 1, stride)
        for index, at in enumerate(points):
            for failure in failures:
                disk = CrashDisk(at=at, failure=failure, seed=at, can_exchange=can_exchange, flushes=flushes)
                _one(world, folder / "device", disk, f"{at} ({counted.log[at - 1]}), {failure.value}", found)
            tell((index + 1) / len(points))
    finally:
        logging.disable(logging.NOTSET)
    return found


def _live(world: World, folder: Path, disk: CrashDisk) -> None:
    folder.mkdir(parents=True)
    device = Device(world, folder, disk)
    world.want("2.0")
    device.start()
    live_from(device, 0)
    if not settled(device):
        raise AssertionError(f"an undisturbed life must end well: {device.agent}")
    if device.agent is None or device.agent.status()["deltas"] != 1 or (world.sealed and device.in_clear):
        raise AssertionError("an undisturbed life takes one delta and keeps what is sealed so")


def _one(world: World, folder: Path, disk: CrashDisk, name: str, found: Found) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    found.runs += 1
    device = Device(world, folder, disk)
    world.want("2.0")
    _until_failure(device, disk)
    disk.crash()
    _looks_sealed(device, name, found)
    device.disk = CrashDisk(can_exchange=disk.can_exchange)
    device.disk.adopt(folder)
    device.resting = False
    if _starts_well(device, name, found):
        _ends_well(device, name, found)
    _looks_sealed(device, name, found)


def _looks_sealed(device: Device, name: str, found: Found) -> None:
    if device.world.sealed and (files := device.in_clear):
        found.leaked.append(f"{name}: {files[0]}")


def _until_failure(device: Device, disk: CrashDisk) -> None:
    """Live until the process dies, or to the end of the phase in which the disk became full, or to the end."""
    device.resting = disk.failure is Failure.FULL
    try:
        device.start()
        live_from(device, 0)
    except PowerCut:
        return
    except (OSError, AgentError):  # the process ends at its start, and whatever supervises it starts it again
        return


def _starts_well(device: Device, name: str, found: Found) -> bool:
    """Start again on what is left: a bundle plays, and nothing that was promised is gone."""
    try:
        agent = device.start()
        agent.step()
    except (PowerCut, OSError, AgentError, AssertionError) as error:
        found.bricked.append(f"{name}: {error!r}")
        return False
    if agent.counters.plain_frames or agent.counters.unverified_frames or not agent.counters.upscaled:
        found.bricked.append(f"{name}: a frame without a model")
    if agent.slots.security_floor < max(device.promise.floor, _told_floor(device)):
        found.lowered.append(f"{name}: floor {agent.slots.security_floor}")
    if not device.promise.causes <= device.causes:
        found.forgotten.append(f"{name}: {sorted(device.promise.causes - device.causes)}")
    return True


def _told_floor(device: Device) -> int:
    """The security epoch of the newest bundle whose confirmation the platform heard."""
    world = device.world
    confirmed = {digest for stage, _, digest in device.told if stage == "confirmed"}
    made = (world.two, world.bad, world.four, world.five)
    return max((bundle.security_epoch for bundle in made if bundle.digest in confirmed), default=0)


def _ends_well(device: Device, name: str, found: Found) -> None:
    live_from(device, device.phase)
    for _ in range(EXTRA_TURNS):
        if not settled(device):
            device.turn()
    if not settled(device):
        slots = device.agent.slots if device.agent else None
        found.stuck.append(f"{name}: {slots and (slots.running.version, slots.running.state.value)}")
    if "driver_errors" not in device.causes:
        found.forgotten.append(f"{name}: driver_errors at the end")
    if ("rolled_back", "driver_errors", device.world.bad.digest) not in device.told:
        found.untold.append(name)
    assert device.agent is not None
    slots = device.agent.slots
    if device.told_crashes != slots.fallen or slots.falls:
        found.miscounted.append(f"{name}: {device.told_crashes} of {slots.fallen} crashes")
