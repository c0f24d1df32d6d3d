"""Everything that the page shows, asked for at the same time and kept side by side with what did not answer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, fields

from contracts.wire import BuildList, ClusterList, CohortList, DeviceList, DriftAlarmList, RolloutList
from contracts.wire.base import Answer
from contracts.wire.drift import CohortDay
from services.dashboard.limits import LIMITS
from services.dashboard.platform import Loaded, Missing, Platform


class CohortDays(Answer):
    """A page of the drift series."""

    items: tuple[CohortDay, ...]
    next_cursor: str | None = None


class KillState(Answer):
    """Whether the fleet is stopped, and why."""

    killed: bool
    reason: str = ""


class AlertItem(Answer):
    """Something that a person should know."""

    kind: str
    subject: str
    detail: str
    created: float


class AlertList(Answer):
    """Alerts, newest first."""

    items: tuple[AlertItem, ...]
    next_cursor: str | None = None


@dataclass(frozen=True)
class Snapshot:
    """One look at the platform; each part is there or says why not."""

    devices: Loaded[DeviceList] | Missing
    rollouts: Loaded[RolloutList] | Missing
    cohorts: Loaded[CohortList] | Missing
    alarms: Loaded[DriftAlarmList] | Missing
    clusters: Loaded[ClusterList] | Missing
    builds: Loaded[BuildList] | Missing
    alerts: Loaded[AlertList] | Missing
    kill: Loaded[KillState] | Missing

    @property
    def sources(self) -> int:
        """How many parts there are."""
        return len(fields(self))

    @property
    def missing(self) -> tuple[Missing, ...]:
        """The parts that did not answer."""
        parts = (getattr(self, field.name) for field in fields(self))
        return tuple(part for part in parts if isinstance(part, Missing))

    @property
    def stopped(self) -> KillState | None:
        """The kill switch, while it is on."""
        return self.kill.value if isinstance(self.kill, Loaded) and self.kill.value.killed else None


async def take(platform: Platform) -> Snapshot:
    """Ask all services at once."""
    return Snapshot(
        *await asyncio.gather(
            platform.pages(DeviceList, "/releases/v1/devices", LIMITS.device_pages, limit=200),
            platform.get(RolloutList, "/releases/v1/rollouts", limit=LIMITS.list_rows),
            platform.get(CohortList, "/drift/v1/cohorts", limit=200),
            platform.get(DriftAlarmList, "/drift/v1/alarms", limit=LIMITS.list_rows),
            platform.get(ClusterList, "/curation/v1/clusters", limit=LIMITS.list_rows),
        ),
        *await asyncio.gather(
            platform.get(BuildList, "/builds/v1/builds", limit=LIMITS.list_rows),
            platform.get(AlertList, "/releases/v1/alerts", limit=LIMITS.alerts),
            platform.get(KillState, "/releases/v1/kill-switch"),
        ),
    )


async def series(platform: Platform) -> Loaded[CohortDays] | Missing:
    """Drift of every cohort over the last days."""
    newest = await platform.get(CohortList, "/drift/v1/cohorts", limit=200)
    if isinstance(newest, Missing):
        return newest
    last = max((cohort.latest.day for cohort in newest.value.items if cohort.latest), default=0)
    first = max(0, last - LIMITS.chart_days)
    return await platform.pages(CohortDays, "/drift/v1/series", LIMITS.device_pages, limit=200, from_day=first)
