"""Everything that the page shows, asked for at the same time and kept side by side with what did not answer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, fields

from contracts.wire import BuildList, ClusterList, DriftStanding, FleetStanding, RolloutList
from contracts.wire.base import Answer
from contracts.wire.drift import CohortDay
from services.dashboard.limits import LIMITS
from services.dashboard.platform import Loaded, Missing, Platform


class CohortDays(Answer):
    """A page of the drift series."""

    items: tuple[CohortDay, ...]
    next_cursor: str | None = None


@dataclass(frozen=True)
class Snapshot:
    """One look at the platform; each part is there or says why not."""

    standing: Loaded[FleetStanding] | Missing
    rollouts: Loaded[RolloutList] | Missing
    drift: Loaded[DriftStanding] | Missing
    clusters: Loaded[ClusterList] | Missing
    builds: Loaded[BuildList] | Missing

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
    def stopped(self) -> FleetStanding | None:
        """Why the fleet is stopped, while the kill switch is on."""
        return self.standing.value if isinstance(self.standing, Loaded) and self.standing.value.killed else None


async def take(platform: Platform) -> Snapshot:
    """Ask all services at once."""
    return Snapshot(
        *await asyncio.gather(
            platform.get(FleetStanding, "/releases/v1/standing"),
            platform.get(RolloutList, "/releases/v1/rollouts", limit=LIMITS.list_rows, looks=0),
            platform.get(DriftStanding, "/drift/v1/standing"),
            platform.get(ClusterList, "/curation/v1/clusters", limit=LIMITS.list_rows),
            platform.get(BuildList, "/builds/v1/builds", limit=LIMITS.list_rows),
        )
    )


async def series(platform: Platform) -> Loaded[CohortDays] | Missing:
    """The last days of the cohorts that drifted most."""
    asked = {"days": LIMITS.chart_days, "cohorts": LIMITS.chart_cohorts}
    return await platform.get(CohortDays, "/drift/v1/loudest", **asked)
