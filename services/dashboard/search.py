"""The search behind a model: quality over latency of every judged network as a plot, the same numbers as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from contracts.wire.search import BuildSearch, SearchCandidate, SearchRecord
from services.dashboard.guard import Operator
from services.dashboard.languages import _
from services.dashboard.pages import HEADERS
from services.dashboard.paths import segment
from services.dashboard.platform import Loaded, Missing, Platform
from services.kit.settings import settings

router = APIRouter()
SMALLEST, LARGEST = 6.0, 16.0
"""Diameters in pixels of the smallest and the largest network's mark."""


@router.get("/fragments/search-figure/{build_id}")
async def show_search_figure(operator: Operator, build_id: str) -> Response:
    """The plot as data."""
    async with Platform(settings().base_url, operator.token) as platform:
        found = await search_of(platform, build_id)
    if isinstance(found, Missing):
        return JSONResponse(
            {"data": [], "empty": _("No chart: the service %(why)s", why=found.reason)}, headers=HEADERS
        )
    if found.value.search is None:
        return JSONResponse({"data": [], "empty": _("No search was told with this build.")}, headers=HEADERS)
    return JSONResponse(search_figure(found.value.search), headers=HEADERS)


async def search_of(platform: Platform, build_id: str) -> Loaded[BuildSearch] | Missing:
    """What the builds service keeps of the search."""
    return await platform.get(BuildSearch, f"/builds/v1/builds/{segment(build_id)}/search")


def ranked(search: SearchRecord) -> tuple[SearchCandidate, ...]:
    """The chosen one, then the front, then the others; each from fast to slow."""
    return tuple(
        sorted(search.candidates, key=lambda one: (not one.chosen, not one.front, one.latency_ratio, -one.quality_db))
    )


def search_figure(search: SearchRecord) -> dict[str, Any]:  # Any: a Plotly figure as JSON
    """Every network a mark whose size grows with its weights; the front a line, the choice a star, the limit dashed."""
    everything = search.candidates
    others = [one for one in everything if not one.front and not one.chosen]
    front = sorted((one for one in everything if one.front), key=lambda one: (one.latency_ratio, one.quality_db))
    largest = max(one.weights for one in everything) or 1
    traces = [
        _trace(_("judged"), others, largest, {"mode": "markers", "look": "dim"}),
        _trace(_("front"), front, largest, {"mode": "lines+markers", "look": "first"}),
        _trace(_("chosen"), [one for one in everything if one.chosen], largest, {"mode": "markers", "look": "chosen"}),
    ]
    return {
        "data": [trace for trace in traces if trace["x"]],
        "x": {"title": _("latency, as a multiple of production")},
        "y": {"title": _("quality, dB")},
        "limit": {"axis": "x", "at": search.latency_limit, "text": _("limit %(at)g", at=search.latency_limit)},
    }


def _trace(name: str, rows: Sequence[SearchCandidate], largest: int, given: dict[str, str]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "name": name,
        **given,
        "x": [one.latency_ratio for one in rows],
        "y": [one.quality_db for one in rows],
        "text": [_hint(one) for one in rows],
        "sizes": [round(SMALLEST + (LARGEST - SMALLEST) * one.weights / largest, 1) for one in rows],
        "hovertemplate": "%{text}<extra></extra>",
    }


def _hint(one: SearchCandidate) -> str:
    told = _(
        "%(name)s: %(quality).2f dB, %(latency).3f times production, %(weights)d weights",
        name=one.name,
        quality=one.quality_db,
        latency=one.latency_ratio,
        weights=one.weights,
    )
    return f"{told} ({_('production')})" if one.production else told
