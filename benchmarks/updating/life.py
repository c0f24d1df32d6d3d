"""One life of a device, from its first start to its third bundle, on a disk that may fail at any operation.

    join -> install 2.0 -> trial -> confirm            floor 1
         -> install 3.0 -> trial -> roll back           cause driver_errors
         -> install 4.0 by delta -> trial -> confirm    floor 2
         -> rollout 5.0 -> trial -> confirm -> rollout ends -> slots exchanged back to 4.0

Agent, slots, store, outbox, journal, TUF client, downloader and delta are the real ones; the platform is the tests'
twin with a real TUF repository, reached without sockets; the network inside the bundles is a toy, because this is
about the disk. In a sealed world bundles and deltas come sealed, and the trusted environment runs in the device's own
process, so that its file is on the failing disk too.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from contracts.state import Target
from edge_agent.agent import Agent, LoopSettings
from edge_agent.compose import TEE_FOLDER, DeviceSettings, Shared, build_agent, join
from edge_agent.disk import Disk
from edge_agent.observation import ObservationSettings
from edge_agent.observers.drift import Evidence
from edge_agent.observers.health import TrialLimits
from edge_agent.sinks import NullSink
from edge_agent.store import BundleStore
from edge_agent.tee.core import Tee
from edge_agent.transport import Transport
from tests.support.agent_twin import TAGS, WEIGHTS, HandClock, PictureSource, ToyBundle, ToyLoader, make_bundle
from tests.support.platform_twin import TOKEN, PlatformTwin, in_process
from tests.support.sealing_twin import CLASSES, Sealer

TRIAL_FRAMES = 4
OFFER = {"id": "r1", "salt": "s", "basis_points": 10_000}
LAST_FLOOR = 2
PHASES = (("2.0", ""), ("2.0", "3.0"), ("4.0", ""), ("4.0", "5.0"), ("4.0", ""))
"""Baseline and rollout of the state document, one after another."""


@dataclass
class World:
    """The platform and its four releases; devices come and go."""

    folder: Path
    twin: PlatformTwin = field(default_factory=PlatformTwin)
    sealed: bool = False

    def __post_init__(self) -> None:
        self.twin.with_chunks = True
        self.twin.sealer = Sealer() if self.sealed else None
        self.twin.url = "http://platform"
        self.twin.tokens[TOKEN] = 1_000_000
        self.client: httpx.Client = in_process(self.twin)
        self.factory = make_bundle(self.folder, "factory")
        self.two = make_bundle(self.folder, "2.0")
        self.bad = make_bundle(self.folder, "3.0", errors_from=1)
        self.four = make_bundle(self.folder, "4.0", security_epoch=2)
        self.five = make_bundle(self.folder, "5.0", security_epoch=2)
        made = (self.two, self.bad, self.four, self.five)
        self.targets = {bundle.version: self._released(bundle) for bundle in made}
        two, four = self.two, self.four
        self.twin.release_delta(two.data, two.digest, four.data, four.digest)
        self.epochs = itertools.count(2)

    def _released(self, bundle: ToyBundle) -> Target:
        return self.twin.release(bundle.data, bundle.digest, bundle.version, bundle.security_epoch)

    def want(self, baseline: str, rollout: str = "") -> None:
        """Let the state document name a baseline and perhaps a rollout to everybody."""
        offers = [{**OFFER, "target": self.targets[rollout].model_dump()}] if rollout else []
        self.twin.set_state(epoch=next(self.epochs), baseline=self.targets[baseline], rollouts=offers)


@dataclass
class Promise:
    """What the device has written for good, or has told: it must never forget it."""

    floor: int = 0
    causes: frozenset[str] = frozenset()


class Device:
    """One state folder; `start` is a start of the process."""

    def __init__(self, world: World, folder: Path, disk: Disk) -> None:
        self.world, self.folder, self.disk = world, folder, disk
        self.clock = HandClock()
        self.promise = Promise()
        self.agent: Agent | None = None
        self.phase = 0
        self.resting = False
        self._patience = itertools.count(0.0, 10_000.0)
        self._mail = len(world.twin.batches)

    def start(self) -> Agent:
        """Start the agent on what the disk holds."""
        tee = Tee(self.folder / TEE_FOLDER, CLASSES, self.disk) if self.world.sealed else None
        plain = Transport(self.world.twin.url, self.world.client, attempts=1, sleep=lambda seconds: None)
        identity = join(self.folder, plain, TOKEN, TAGS, self.disk)
        settings = DeviceSettings(
            folder=self.folder,
            factory=self.world.factory.path,
            observation=ObservationSettings(TAGS, Evidence(frames=10_000)),
            loop=LoopSettings(trial=TrialLimits(frames=TRIAL_FRAMES), observe_every=1_000),
        )
        self.agent = build_agent(
            settings,
            Shared(BundleStore(self.folder / "bundles", self.disk, tee), ToyLoader()),
            self.clock,
            PictureSource(),
            NullSink(),
            self.disk,
            identity,
            plain.with_token(identity.access_token),
            self._patience.__next__,
        )
        return self.agent

    def turn(self) -> None:
        """Talk, play long enough for a trial, talk."""
        assert self.agent is not None
        self.agent.sync()
        for _ in range(TRIAL_FRAMES + 1):
            self.agent.step()
        self.agent.sync()
        self._note()

    @property
    def told(self) -> frozenset[tuple[str, str, str]]:
        """(stage, cause, digest) of the events that the platform has of this device."""
        batches = self.world.twin.batches[self._mail :]
        events = (event for _, batch in batches for event in batch.installs)
        return frozenset((event.stage.value, event.cause.value, event.digest) for event in events)

    @property
    def told_crashes(self) -> int:
        """How many crashes the platform counts of this device: it takes a report's id once."""
        batches = self.world.twin.batches[self._mail :]
        return len({report.report_id for _, batch in batches for report in batch.health if report.crashes})

    @property
    def causes(self) -> frozenset[str]:
        """Causes of the roll backs that the device remembers."""
        assert self.agent is not None
        return frozenset(entry.cause for entry in self.agent.slots.rollbacks)

    @property
    def in_clear(self) -> list[str]:
        """Files of the device that hold the weights of a bundle in clear."""
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return [path.name for path in files if WEIGHTS in path.read_bytes()]

    def _note(self) -> None:
        assert self.agent is not None
        if not self.agent.owes:
            self.promise = Promise(self.agent.slots.security_floor, self.causes)


def live_from(device: Device, phase: int) -> None:
    """Live from this phase on; `device.phase` says how far it came."""
    for device.phase in range(phase, len(PHASES)):
        device.world.want(*PHASES[device.phase])
        device.turn()
        if device.resting:
            return


def settled(device: Device) -> bool:
    """Whether the device is where every life ends."""
    assert device.agent is not None
    slots = device.agent.slots
    return (slots.running.version, slots.running.state.value, slots.security_floor) == ("4.0", "confirmed", LAST_FLOOR)
