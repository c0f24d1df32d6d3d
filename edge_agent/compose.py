"""The composition root of an agent: settings in, a running agent out. Nothing else builds parts."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from contracts.clock import Clock
from contracts.device import DeviceTags
from edge_agent.agent import Agent, LoopSettings, Parts, Platform
from edge_agent.bundles import Bundles
from edge_agent.config import AgentConfig, DriftConfig, HardConfig, HealthConfig, TrialConfig
from edge_agent.conveyor import Conveyor, ConveyorSettings
from edge_agent.disk import Disk
from edge_agent.enrol import Identity, device_key, enrol, load_identity, lone_identity
from edge_agent.errors import EnrolmentError
from edge_agent.journal import Journal
from edge_agent.key_rotation import finish_rotation
from edge_agent.network import NetworkLimits, NetworkWatch
from edge_agent.observation import Observation, ObservationSettings
from edge_agent.observers.drift import Evidence
from edge_agent.observers.hard import HardSettings
from edge_agent.observers.health import TrialLimits
from edge_agent.outbox import Outbox
from edge_agent.pace import Cap
from edge_agent.platform import HttpStateFeed, Mail, StateFeed, StateKeeper
from edge_agent.playback import Loader
from edge_agent.sealed import KeyDesk, SealedBundles
from edge_agent.sinks import Mp4Sink, NullSink, Sink
from edge_agent.slot_store import SlotStore
from edge_agent.sources import Source, open_source
from edge_agent.state_keys import StateKeys
from edge_agent.store import BundleStore
from edge_agent.tee.client import TeeProcess
from edge_agent.transport import Transport
from edge_agent.update import UpdateExecutor
from edge_agent.updater import MetadataCache, SignedRepository

TEE_FOLDER = "tee"
"""Stands for the fuses of a chip: only the process of the emulated trusted environment reads it."""


@dataclass(frozen=True)
class Shared:
    """What the devices of one process may share: bundles on disk, and what comes over the wire for all of
    them.
    """

    store: BundleStore
    loader: Loader
    feed: StateFeed | None = None
    metadata: MetadataCache | None = None


@dataclass(frozen=True)
class DeviceSettings:
    """One device: where it lives, who it is, how it behaves."""

    folder: Path
    factory: Path
    observation: ObservationSettings
    loop: LoopSettings
    outbox_entries: int = 512
    outbox_bytes: int = 8 * 1024 * 1024
    download_bytes_per_s: float = 0.0
    """Bandwidth cap; 0 is none."""
    sealed_only: bool = False


def settings_of(config: AgentConfig) -> DeviceSettings:
    """Translate a configuration."""
    return DeviceSettings(
        folder=config.state_dir,
        factory=config.factory_bundle,
        observation=observation_settings(config.tags, config.drift, config.hard),
        loop=loop_settings(config.upscale_every, config.observe_every, config.health, config.trial),
        download_bytes_per_s=config.download_kilobytes_s * 1_000.0,
        sealed_only=config.sealed_only,
    )


def observation_settings(tags: DeviceTags, drift: DriftConfig, hard: HardConfig) -> ObservationSettings:
    evidence = Evidence(drift.minimum_frames, drift.minimum_sessions, drift.session_pause_s)
    return ObservationSettings(tags, evidence, drift.spread_hours * 3_600.0, HardSettings(**hard.model_dump()))


def loop_settings(upscale_every: int, observe_every: int, health: HealthConfig, trial: TrialConfig) -> LoopSettings:
    return LoopSettings(
        upscale_every=upscale_every,
        observe_every=observe_every,
        health_frames=health.frames,
        health_s=health.seconds,
        budget_ms=health.budget_ms,
        trial=TrialLimits(**trial.model_dump()),
    )


def build_agent(
    settings: DeviceSettings,
    shared: Shared,
    clock: Clock,
    source: Source,
    sink: Sink,
    disk: Disk,
    identity: Identity,
    transport: Transport | None,
    monotonic: Callable[[], float] = time.monotonic,
    network: NetworkWatch | None = None,
    conveyor: Conveyor | None = None,
) -> Agent:
    """Compose an agent. Without a transport, or for a device that never joined, it plays alone."""
    slots = SlotStore(settings.folder, disk)
    bundles = Bundles(settings.factory, shared.store, shared.loader)
    outbox = Outbox(settings.folder / "outbox", disk, settings.outbox_entries, settings.outbox_bytes)
    journal = Journal(outbox, slots.slots.starts + 1, identity.secret)
    observation = Observation(settings.folder, disk, identity, outbox, settings.observation)
    platform = None
    if transport is not None and identity.joined:
        feed = shared.feed or HttpStateFeed(transport)
        cap = Cap(settings.download_bytes_per_s)
        folder = settings.folder / "tuf"
        repository = SignedRepository(folder, identity.tuf_root, transport, shared.metadata, disk, cap)
        keys = StateKeys(settings.folder, identity.state_key, disk, repository)
        desk = KeyDesk(transport, partial(device_key, settings.folder, disk))
        device_class = settings.observation.tags.device_class
        sealed = SealedBundles(repository, shared.store, desk, device_class, disk)
        executor = UpdateExecutor(
            identity.device_id, slots, bundles, repository, journal, monotonic, sealed, settings.sealed_only
        )
        platform = Platform(
            device_id=identity.device_id,
            keeper=StateKeeper(settings.folder, feed, identity.state_key, disk, keys=keys),
            mail=Mail(outbox, transport),
            executor=executor,
        )
    parts = Parts(clock, disk, source, sink, slots, bundles, journal, observation, platform, network, conveyor)
    agent = Agent(parts, settings.loop)
    if conveyor is not None:
        conveyor.sizes = lambda: getattr(agent.playback, "sizes", ())
    return agent


def join(folder: Path, transport: Transport, token: str, tags: DeviceTags, disk: Disk, running: str = "") -> Identity:
    """Return the stored identity, or enrol with `token`. Raises EnrolmentError, PlatformError."""
    known = load_identity(folder)
    if known is not None:
        return known
    if not token:
        raise EnrolmentError(f"{folder} never joined; give --token TOKEN once (an operator makes one)")
    return enrol(folder, transport, token, tags, disk, running)


def identity_for(config: AgentConfig, transport: Transport | None, disk: Disk) -> Identity:
    """Return who this device is: enrolled when it can be, alone when no platform is configured."""
    if transport is None:
        return load_identity(config.state_dir) or lone_identity(config.state_dir, disk)
    running = factory_digest(config.factory_bundle)
    return join(config.state_dir, transport, config.enrolment_token, config.tags, disk, running)


def factory_digest(path: Path) -> str:
    """SHA-384 of the built-in bundle, which a device reports when it joins; "" when it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha384").hexdigest()
    except OSError:
        return ""


def agent_from(config: AgentConfig, clock: Clock, loader: Loader, transport: Transport | None) -> Agent:
    """Compose the agent of `edgeloop agent run`."""
    disk = Disk(config.durable)
    disk.make_directory(config.state_dir)
    identity = identity_for(config, transport, disk)
    network = NetworkWatch(NetworkLimits(**config.network.model_dump())) if transport else None
    signed = transport.with_token(identity.access_token).watched(network.trip) if transport and network else None
    if signed is not None and identity.joined:
        finish_rotation(config.state_dir, signed, identity, disk)
    source = open_source(config.source, clock.now, config.loop)
    tee = TeeProcess(config.state_dir / TEE_FOLDER, [config.tags.device_class])
    shared = Shared(BundleStore(config.state_dir / "bundles", disk, tee), loader)
    sink = sink_for(config)
    conveyor = conveyor_for(config, clock, source, sink)
    if conveyor is not None:
        source, sink = conveyor.feed, conveyor.outlet
    settings = settings_of(config)
    return build_agent(
        settings, shared, clock, source, sink, disk, identity, signed, network=network, conveyor=conveyor
    )


def conveyor_for(config: AgentConfig, clock: Clock, source: Source, sink: Sink) -> Conveyor | None:
    """Return the threads around the engine, unless the configuration wants one frame after another."""
    if not config.pipelined:
        return None
    deadline_s, hang_s = config.deadline_ms / 1e3, config.hang_s
    return Conveyor(source, sink, ConveyorSettings(config.fps, config.max_frames, deadline_s, hang_s), now=clock.now)


def sink_for(config: AgentConfig) -> Sink:
    """Return the recording that the configuration asks for."""
    if config.output is None:
        return NullSink()
    rate = max(1, round(config.fps)) if config.fps else 25
    return Mp4Sink(config.output, rate, piece_frames=config.output_piece_frames, keep=config.output_keep)
