"""The fleet process: one loop plays the devices' frames at their simulated times, a few threads talk.

A device's frames lie evenly over the day with its own phase. A loop that falls behind skips frames and
counts them; it never lets a queue grow. SIGTERM and SIGINT end it: running days are saved, the status is
written once more.
"""

from __future__ import annotations

import heapq
import json
import logging
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

from contracts.clock import SECONDS_PER_DAY, Clock, day_of
from contracts.npu.spec import target_names
from edge_agent.compose import TEE_FOLDER, DeviceSettings, Shared, loop_settings, observation_settings
from edge_agent.disk import Disk
from edge_agent.errors import ConfigError
from edge_agent.fleet.config import FleetConfig, GroupConfig
from edge_agent.fleet.device import FleetDevice, Surroundings
from edge_agent.fleet.pool import FramePool, PoolSource
from edge_agent.fleet.sharing import SharedMetadata, SharedStateFeed
from edge_agent.fleet.status import fleet_status
from edge_agent.playback import Loader
from edge_agent.rest import rest_s
from edge_agent.runtime.npu import Faults
from edge_agent.sources import Schedule, load_schedule, parse_schedule
from edge_agent.store import BundleStore
from edge_agent.tee.client import TeeProcess
from edge_agent.transport import make_client

log = logging.getLogger(__name__)
STATUS_S = 1.0
COLLECT_S = 30.0
IDLE_S = 0.02
START_FILE = "fleet-start.json"

LoaderFor = Callable[[GroupConfig, Faults, int], Loader]


class Fleet:
    """All devices of one process. `step` belongs to one thread; `start_talking` starts the others."""

    def __init__(self, config: FleetConfig, clock: Clock, loader_for: LoaderFor) -> None:
        self.config, self._clock = config, clock
        disk = Disk(config.durable)
        disk.make_directory(config.state_dir)
        self._disk = Disk(durable=False)
        self._client = make_client(config.sync_threads + 1)
        self._tee = TeeProcess(config.state_dir / TEE_FOLDER, target_names())
        self._store = BundleStore(config.state_dir / "bundles", disk, self._tee)
        self._pool = FramePool(config.pool_megabytes * 1_000_000, config.frames_per_clip, config.stride)
        self._around = Surroundings(config, clock, self._client, disk, SharedStateFeed(config.state_ttl_s))
        self._metadata = SharedMetadata(config.state_ttl_s)
        self._first_day = first_day(config.state_dir, disk, clock)
        self.devices = [
            self._device(group, number, loader_for) for group in config.groups for number in range(group.count)
        ]
        self._period = SECONDS_PER_DAY / config.frames_per_day
        generator = random.Random(config.seed)
        now = clock.now()
        self._due = [(now + generator.random() * self._period, index) for index in range(len(self.devices))]
        heapq.heapify(self._due)
        self.skipped = 0
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._talk_lock = threading.Lock()
        self._talk_due: list[tuple[float, int]] = []
        self._written = self._collected = time.monotonic()

    def run(self, stop: threading.Event) -> None:
        """Play until `stop` is set."""
        self.start_talking()
        try:
            while not stop.is_set():
                if not self.step():
                    stop.wait(IDLE_S)
                self._housekeeping()
        finally:
            self.close()

    def step(self) -> bool:
        """Play the frame that is due first; False when none is due yet."""
        now = self._clock.now()
        due, index = self._due[0]
        if due > now:
            return False
        self.devices[index].step()
        following = due + self._period
        if following < now - self._period:
            missed = int((now - following) // self._period)
            self.skipped += missed if self.devices[index].agent is not None else 0
            following += missed * self._period
        heapq.heapreplace(self._due, (following, index))
        return True

    def start_talking(self) -> None:
        """Start the threads that let devices talk to the platform, evenly over the interval."""
        now = time.monotonic()
        spread = self.config.sync_s / max(1, len(self.devices))
        self._talk_due = [(now + index * spread, index) for index in range(len(self.devices))]
        for number in range(self.config.sync_threads):
            thread = threading.Thread(target=self._talk, name=f"talk-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def status(self) -> dict[str, object]:
        """Return the status of the moment."""
        now = self._clock.now()
        return fleet_status(self.devices, now, self.skipped, max(0.0, now - self._due[0][0]))

    def write_status(self) -> None:
        """Replace the status file; a full disk costs the status, nothing else."""
        try:
            self._disk.make_directory(self.config.status_path.parent)
            self._disk.replace(self.config.status_path, json.dumps(self.status()).encode())
        except OSError as error:
            log.warning("status not written: %s", error)

    def close(self) -> None:
        """Stop the threads, save the devices' days, write the last status."""
        self._stop.set()
        for thread in self._threads:
            thread.join(30)
        for device in self.devices:
            device.close()
        self.write_status()
        self._tee.close()
        self._client.close()

    def _device(self, group: GroupConfig, number: int, loader_for: LoaderFor) -> FleetDevice:
        config, seed = self.config, device_seed(self.config.seed, group.name, number)
        settings = DeviceSettings(
            folder=config.state_dir / "devices" / f"{group.name}-{number:04d}",
            factory=config.factory_bundle,
            observation=observation_settings(group.tags, config.drift, config.hard),
            loop=loop_settings(config.upscale_every, 1, config.health, config.trial),
            outbox_entries=config.outbox_entries,
        )
        faults = faults_of(group) if group.faulty is None or number < group.faulty else Faults()
        shared = Shared(self._store, loader_for(group, faults, seed), self._around.feed, self._metadata)
        schedule = self._schedule(group)
        return FleetDevice(
            group,
            settings,
            self._around,
            shared,
            lambda: PoolSource(self._pool, schedule, self._clock.now, config.stay_frames, seed),
        )

    def _schedule(self, group: GroupConfig) -> Schedule:
        if isinstance(group.schedule, str):
            return load_schedule(Path(group.schedule), self._first_day)
        return parse_schedule(group.schedule, Path(), self._first_day, f"of group {group.name}")

    def _talk(self) -> None:
        while not self._stop.is_set():
            with self._talk_lock:
                due, index = heapq.heappop(self._talk_due) if self._talk_due else (time.monotonic() + 1, -1)
            if self._stop.wait(max(0.0, due - time.monotonic())):
                return
            if index < 0:
                continue
            began = time.monotonic()
            try:
                self.devices[index].sync()
            except Exception:  # one device's bug leaves the others alone
                log.exception("device %d could not talk", index)
            with self._talk_lock:
                heapq.heappush(self._talk_due, (self._next_talk(began), index))

    def _next_talk(self, began: float) -> float:
        now = time.monotonic()
        return now + rest_s(self.config.sync_s * random.uniform(0.9, 1.1), now - began)

    def _housekeeping(self) -> None:
        now = time.monotonic()
        if now - self._written >= STATUS_S:
            self._written = now
            self.write_status()
        if now - self._collected >= COLLECT_S:
            self._collected = now
            self._collect()

    def _collect(self) -> None:
        """Remove bundles that no device refers to any more."""
        if any(device.agent is None for device in self.devices):
            return
        agents = [device.agent for device in self.devices if device.agent is not None]
        self._store.collect({digest for agent in agents for digest in agent.slots.digests()})


def device_seed(seed: int, group: str, number: int) -> int:
    """Return a device's own seed, the same at every start."""
    return random.Random(f"{seed}/{group}/{number}").getrandbits(48)


def faults_of(group: GroupConfig) -> Faults:
    """Return the faults of a group's devices. Raises ConfigError."""
    try:
        return Faults.from_mapping(group.faults)
    except ValueError as error:
        raise ConfigError(f"faults of group {group.name}: {error}") from error


def first_day(folder: Path, disk: Disk, clock: Clock) -> int:
    """Return the day on which this fleet first started; `from_day` of schedules counts from it."""
    path = folder / START_FILE
    try:
        return int(json.loads(disk.read(path, 1_000))["day"])
    except (OSError, ValueError, KeyError, TypeError):
        day = day_of(clock.now())
        disk.replace(path, json.dumps({"day": day}).encode())
        return day
