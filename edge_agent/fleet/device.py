"""One light device of a fleet: joins when the platform lets it, then is an `Agent` like any other."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import httpx

from contracts.clock import Clock
from edge_agent.agent import Agent
from edge_agent.compose import DeviceSettings, Shared, build_agent, factory_digest, join
from edge_agent.disk import Disk
from edge_agent.enrol import Identity, lone_identity
from edge_agent.errors import AgentError, VideoError
from edge_agent.fleet.config import FleetConfig, GroupConfig
from edge_agent.fleet.pool import PoolSource
from edge_agent.fleet.sharing import SharedStateFeed
from edge_agent.sinks import NullSink
from edge_agent.transport import Transport

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Surroundings:
    """What every device of the process gets."""

    config: FleetConfig
    clock: Clock
    client: httpx.Client
    disk: Disk
    feed: SharedStateFeed


class FleetDevice:
    """A device; `agent` is there as soon as it has joined (at once when no platform is configured)."""

    def __init__(
        self,
        group: GroupConfig,
        settings: DeviceSettings,
        around: Surroundings,
        shared: Shared,
        source: Callable[[], PoolSource],
    ) -> None:
        self.group, self._settings = group, settings
        self._around, self._shared, self._source = around, shared, source
        self.agent: Agent | None = None
        self.error = ""
        self.video_errors = 0

    def sync(self) -> None:
        """Join first, then talk to the platform like any agent. Never raises."""
        try:
            if self.agent is None:
                self.agent = self._join()
            self.agent.sync()
        except (AgentError, OSError) as error:
            self.error = str(error)[:200]

    def step(self) -> bool:
        """Play one sampled frame; False while the device has not joined or sees nothing."""
        if self.agent is None:
            return False
        try:
            return self.agent.step()
        except VideoError as error:
            self.video_errors += 1
            self.error = str(error)[:200]
            return False

    def close(self) -> None:
        if self.agent is not None:
            self.agent.close()

    def _join(self) -> Agent:
        around, folder, tags = self._around, self._settings.folder, self.group.tags
        around.disk.make_directory(folder)
        if not around.config.platform_url:
            return self._build(lone_identity(folder, around.disk), None)
        plain = Transport(around.config.platform_url, around.client, attempts=1)
        running = factory_digest(self._settings.factory)
        identity = join(folder, plain, around.config.enrolment_token, tags, around.disk, running)
        signed = plain.with_token(identity.access_token)
        around.feed.use(signed)
        return self._build(identity, signed)

    def _build(self, identity: Identity, transport: Transport | None) -> Agent:
        around = self._around
        return build_agent(
            self._settings,
            self._shared,
            around.clock,
            self._source(),
            NullSink(),
            around.disk,
            identity,
            transport,
        )
