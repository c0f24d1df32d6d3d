"""*Drift*: the cohorts of every device class over the last days as a heat map, and one cohort in full.

Every cell says its state in words; the colour repeats it. A day without a verdict is unknown, never calm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from contracts.wire import ClusterList, CohortList, DriftAlarmList
from contracts.wire.drift import CohortDay, DriftState
from services.dashboard.drift_settings import ChangeList, SettingList
from services.dashboard.guard import Operator
from services.dashboard.limits import LIMITS
from services.dashboard.lines import Line, line_of
from services.dashboard.lists import filters, query_string
from services.dashboard.pages import page
from services.dashboard.paths import segment
from services.dashboard.platform import Loaded, Missing, Platform
from services.dashboard.snapshot import CohortDays
from services.kit.settings import settings

router = APIRouter()
HOME = "/console/drift"
Cursor = Annotated[str, Query(max_length=512)]
LEVELS = (1.5, 2.5, 3.5)


class DayDetail(CohortDay):
    """A cohort-day with the reason of its verdict."""

    reason: str = ""
    p: float | None = None
    z_residual: float | None = None
    quality_rise_db: float | None = None
    quality_fell: bool | None = None
    thresholds: int | None = None


class DayDetails(CohortDays):
    """A page of them."""

    items: tuple[DayDetail, ...]


@dataclass(frozen=True)
class Cell:
    """One cohort on one day. `level` 0..4 is how loud, None where nothing was judged."""

    day: int
    state: str = ""
    z: float | None = None
    devices: int = 0
    level: int | None = None


@dataclass(frozen=True)
class Row:
    """A cohort; the name and its part below the class."""

    cohort: str
    scene: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Group:
    """A device class: its cohorts, and of each day the loudest."""

    name: str
    loudest: tuple[Cell, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class HeatMap:
    """Device classes down, days across."""

    days: tuple[int, ...]
    groups: tuple[Group, ...]


def heat_map(cohorts: Iterable[str], days: Sequence[CohortDay], width: int) -> HeatMap:
    """The last `width` days of the cohorts."""
    last = max((row.day for row in days), default=0)
    shown = tuple(range(last - width + 1, last + 1))
    known = {(row.cohort, row.day): _cell(row) for row in days}
    classes: dict[str, list[Row]] = {}
    for cohort in sorted(set(cohorts)):
        name, _slash, scene = cohort.partition("/")
        cells = tuple(known.get((cohort, day), Cell(day)) for day in shown)
        classes.setdefault(name, []).append(Row(cohort, scene or cohort, cells))
    return HeatMap(shown, tuple(Group(name, _loudest(rows), tuple(rows)) for name, rows in classes.items()))


def _cell(row: CohortDay) -> Cell:
    judged = row.state in (DriftState.STABLE, DriftState.WARN, DriftState.SEVERE)
    level = sum(1 for limit in LEVELS if (row.z or 0.0) > limit) if judged else None
    if row.state is DriftState.SEVERE:
        level = 4
    return Cell(row.day, row.state.value, row.z, row.devices, level)


def _loudest(rows: Sequence[Row]) -> tuple[Cell, ...]:
    by_day = zip(*(row.cells for row in rows), strict=True)
    return tuple(
        max(
            cells,
            key=lambda cell: (-1 if cell.level is None else cell.level, cell.z or 0.0, cell.state != ""),
        )
        for cells in by_day
    )


@router.get(HOME)
async def show_drift(operator: Operator, cursor: Cursor = "") -> Response:
    """A page of cohorts with their last days."""
    asked = {"cursor": cursor} if cursor else {}
    async with Platform(settings().base_url, operator.token) as platform:
        found = await platform.get(CohortList, "/drift/v1/cohorts", limit=LIMITS.page_rows, **asked)
        days = await _days_of(platform, found)
    following = None if isinstance(found, Missing) else found.value.next_cursor
    return page(
        "drift.html",
        session=operator,
        here=HOME,
        found=found,
        days=days,
        alarmed=[] if isinstance(found, Missing) else [one.cohort for one in found.value.items if one.alarmed],
        table=_table(found, days),
        more=query_string({}, following),
        paged=bool(cursor),
    )


@router.get(HOME + "/{device_class}/{scene}")
async def show_cohort(operator: Operator, device_class: str, scene: str) -> Response:
    """One cohort: what was tested on how much, where it moved, what came of it, and its clusters."""
    cohort = f"{segment(device_class)}/{segment(scene)}"
    async with Platform(settings().base_url, operator.token) as platform:
        newest = await _newest_day(platform)
        first = max(0, newest - LIMITS.chart_days)
        days, alarms, clusters, known, changes = await asyncio.gather(
            platform.pages(DayDetails, "/drift/v1/series", 2, limit=200, cohort=cohort, from_day=first),
            platform.get(DriftAlarmList, "/drift/v1/alarms", limit=LIMITS.page_rows, cohort=cohort),
            platform.get(ClusterList, "/curation/v1/clusters", limit=LIMITS.list_rows, cohort=cohort),
            platform.get(SettingList, "/drift/v1/settings"),
            platform.get(ChangeList, "/drift/v1/thresholds", limit=200),
        )
    rows = () if isinstance(days, Missing) else tuple(reversed(days.value.items))
    limit = _threshold(rows, known, changes)
    named = () if isinstance(alarms, Missing) else alarms.value.items
    return page(
        "drift_cohort.html",
        status=(days.status or 503) if isinstance(days, Missing) else 200 if rows else 404,
        session=operator,
        here=HOME,
        cohort=cohort,
        days=days,
        rows=rows,
        moved=next((row for row in rows if row.directions), None),
        alarms=alarms,
        named=named,
        clusters=clusters,
        limit=limit,
        picture=_picture(rows, limit),
        to_clusters=filters({"cohort": cohort}),
    )


async def _days_of(platform: Platform, found: Loaded[CohortList] | Missing) -> Loaded[CohortDays] | Missing | None:
    """The last days of the cohorts of one page."""
    if isinstance(found, Missing) or not found.value.items:
        return None
    names = [one.cohort for one in found.value.items]
    last = max((one.latest.day for one in found.value.items if one.latest), default=0)
    bounds = {"from_cohort": names[0], "to_cohort": names[-1]}
    first = max(0, last - LIMITS.heat_days + 1)
    return await platform.pages(CohortDays, "/drift/v1/series", LIMITS.list_pages, limit=200, from_day=first, **bounds)


def _table(found: Loaded[CohortList] | Missing, days: Loaded[CohortDays] | Missing | None) -> HeatMap | None:
    if isinstance(found, Missing) or not isinstance(days, Loaded):
        return None
    return heat_map((one.cohort for one in found.value.items), days.value.items, LIMITS.heat_days)


async def _newest_day(platform: Platform) -> int:
    found = await platform.get(CohortList, "/drift/v1/cohorts", limit=200)
    if isinstance(found, Missing):
        return 0
    return max((one.latest.day for one in found.value.items if one.latest), default=0)


def _threshold(
    rows: Sequence[DayDetail], known: Loaded[SettingList] | Missing, changes: Loaded[ChangeList] | Missing
) -> float | None:
    """Sigma from which the newest day is a hit: of the cohort's own thresholds, else of the settings."""
    own = rows[0].thresholds if rows else None
    if own is not None:
        listed = () if isinstance(changes, Missing) else changes.value.items
        row = next((one for one in listed if one.id == own), None)
        if row is None:
            return None
        if "z_threshold" in row.values:
            return row.values["z_threshold"]
    items = () if isinstance(known, Missing) else known.value.items
    return next((one.value for one in items if one.name == "z_threshold"), None)


def _picture(rows: Sequence[DayDetail], limit: float | None) -> Line | None:
    points = [(row.day, row.z) for row in reversed(rows) if row.z is not None]
    return line_of(points, limit) if len(points) > 1 else None
