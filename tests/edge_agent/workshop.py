"""Builds agents from real parts and toy bundles, on one state folder, so that a test can restart a device."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path

from contracts.state import Target
from edge_agent.agent import Agent, LoopSettings
from edge_agent.compose import DeviceSettings, Shared, build_agent, join
from edge_agent.disk import Disk
from edge_agent.observation import ObservationSettings
from edge_agent.observers.drift import Evidence
from edge_agent.observers.health import TrialLimits
from edge_agent.sinks import NullSink, Sink
from edge_agent.sources import Source
from edge_agent.store import BundleStore
from edge_agent.tee import TrustedEnvironment
from edge_agent.transport import Transport, make_client
from tests.support.agent_twin import TAGS, HandClock, PictureSource, ToyBundle, ToyLoader, make_bundle
from tests.support.platform_twin import TOKEN, PlatformTwin

TRIAL = TrialLimits(frames=10)


@dataclass
class Workshop:
    """One device. `agent()` starts it; calling it again is a restart on the same state."""

    folder: Path
    twin: PlatformTwin
    clock: HandClock = field(default_factory=HandClock)
    disk: Disk = field(default_factory=Disk)
    spread_s: float = 0.0
    tee: TrustedEnvironment | None = None
    sealed_only: bool = False

    def __post_init__(self) -> None:
        self.patience = itertools.count(0.0, 10_000.0)  # no pause lasts: every look at this clock is hours later
        self.client = make_client()
        self.bundles = self.folder / "made"
        self.bundles.mkdir()
        self.factory = make_bundle(self.bundles, "factory")
        self.loader = ToyLoader()
        self.state = self.folder / "device"

    def close(self) -> None:
        self.client.close()

    def agent(self, source: Source | None = None, sink: Sink | None = None, loop: LoopSettings | None = None) -> Agent:
        """Start the device."""
        plain = Transport(self.twin.url, self.client, attempts=1, sleep=lambda seconds: None)
        identity = join(self.state, plain, TOKEN, TAGS, self.disk)
        settings = DeviceSettings(
            folder=self.state,
            factory=self.factory.path,
            observation=ObservationSettings(TAGS, Evidence(frames=5, sessions=1), self.spread_s),
            loop=loop or LoopSettings(trial=TRIAL),
            sealed_only=self.sealed_only,
        )
        shared = Shared(BundleStore(self.state / "bundles", self.disk, self.tee), self.loader)
        return build_agent(
            settings,
            shared,
            self.clock,
            source or PictureSource(),
            sink or NullSink(),
            self.disk,
            identity,
            plain.with_token(identity.access_token),
            self.patience.__next__,
        )

    def bundle(self, version: str, **behaviour: object) -> ToyBundle:
        """Make another bundle."""
        return make_bundle(self.bundles, version, **behaviour)  # type: ignore[arg-type]  # free behaviour

    def released(self, bundle: ToyBundle) -> Target:
        """Release a bundle on the twin."""
        return self.twin.release(bundle.data, bundle.digest, bundle.version, bundle.security_epoch)


def play(agent: Agent, frames: int, clock: HandClock | None = None, seconds: float = 1.0) -> None:
    """Step an agent, moving the clock between frames."""
    for _ in range(frames):
        assert agent.step()
        if clock is not None:
            clock.at += seconds
