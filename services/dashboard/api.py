"""Routes of the page: the overview with its live fragments, details, static files."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from contracts.wire import Build, Rollout
from services.dashboard import (
    account,
    accounts,
    actions,
    audit,
    bundles,
    charts,
    clusters,
    devices,
    drift,
    drift_settings,
    flows,
    languages,
    models,
    new_account,
    releases,
    search,
    signing,
    snapshot,
)
from services.dashboard.assets import PREFIX, asset
from services.dashboard.fleet import fleet_table
from services.dashboard.guard import Operator
from services.dashboard.languages import _
from services.dashboard.loop import stations
from services.dashboard.pages import HEADERS, missing_page, page
from services.dashboard.paths import segment
from services.dashboard.platform import Missing, Platform
from services.dashboard.sessions import Session
from services.kit.settings import settings

router = APIRouter(include_in_schema=False)
for part in (
    signing,
    languages,
    account,
    accounts,
    new_account,
    releases,
    devices,
    drift,
    clusters,
    bundles,
    models,
    search,
    flows,
    audit,
    drift_settings,
    actions,
):
    router.include_router(part.router)

YEAR_S = 365 * 86_400
FRAGMENTS = ("loop", "rollouts", "alerts", "fleet", "drift", "clusters", "builds")


def platform_of(session: Session) -> Platform:
    """The APIs, seen with the session's token."""
    return Platform(settings().base_url, session.token)


@router.get("/")
async def overview(operator: Operator) -> Response:
    """The whole page."""
    return page("overview.html", session=operator, **await _context(operator))


@router.get("/fragments/drift-figure")
async def drift_figure(operator: Operator) -> Response:
    """The drift chart as data."""
    async with platform_of(operator) as platform:
        days = await snapshot.series(platform)
    if isinstance(days, Missing):
        return JSONResponse({"data": [], "empty": _("No chart: the service %(why)s", why=days.reason)}, headers=HEADERS)
    return JSONResponse(charts.drift_figure(days.value.items), headers=HEADERS)


@router.get("/fragments/now")
async def everything(operator: Operator) -> Response:
    """All panels of the overview in one answer, so that an open page asks once a second and not once a panel."""
    return page("now.html", session=operator, fragments=FRAGMENTS, **await _context(operator))


@router.get("/fragments/{name}")
async def fragment(operator: Operator, name: str) -> Response:
    """One panel, to be put in place of its older self."""
    if name not in FRAGMENTS:
        return Response("no such panel", status_code=404, headers=HEADERS, media_type="text/plain")
    return page(f"panel_{name}.html", session=operator, **await _context(operator))


@router.get("/console/rollouts/{rollout_id}")
async def rollout_detail(operator: Operator, rollout_id: str) -> Response:
    """One rollout with its stages, intervals and actions."""
    async with platform_of(operator) as platform:
        found = await platform.get(Rollout, f"/releases/v1/rollouts/{segment(rollout_id)}")
    if isinstance(found, Missing):
        return missing_page(operator, _("Rollout %(id)s", id=rollout_id), found)
    return page("rollout.html", session=operator, rollout=found.value)


@router.get("/fragments/rollouts/{rollout_id}")
async def rollout_fragment(operator: Operator, rollout_id: str) -> Response:
    """The body of a rollout's page, to be put in place of its older self."""
    async with platform_of(operator) as platform:
        found = await platform.get(Rollout, f"/releases/v1/rollouts/{segment(rollout_id)}")
    if isinstance(found, Missing):
        return Response(found.reason, status_code=found.status or 503, headers=HEADERS, media_type="text/plain")
    return page("panel_rollout.html", session=operator, rollout=found.value)


@router.get("/console/builds/{build_id}")
async def build_detail(operator: Operator, build_id: str) -> Response:
    """One build with every check of the gate."""
    async with platform_of(operator) as platform:
        found = await platform.get(Build, f"/builds/v1/builds/{segment(build_id)}")
    if isinstance(found, Missing):
        return missing_page(operator, _("Build %(id)s", id=build_id), found)
    return page("build.html", session=operator, build=found.value)


@router.get(PREFIX + "/{tag}/{name}")
def static_file(request: Request, tag: str, name: str) -> Response:
    """A static file; its address changes with its content."""
    try:
        found = asset(name)
    except KeyError:
        return Response("no such file", status_code=404, media_type="text/plain")
    headers = {"Cache-Control": f"public, max-age={YEAR_S}, immutable", "Vary": "Accept-Encoding"}
    if tag != found.tag:
        headers["Cache-Control"] = "no-store"
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(found.packed, media_type=found.media_type, headers={**headers, "Content-Encoding": "gzip"})
    return Response(found.data, media_type=found.media_type, headers=headers)


async def _context(operator: Session) -> dict[str, Any]:  # Any: whatever the templates show
    async with platform_of(operator) as platform:
        taken = await snapshot.take(platform)
    running = () if isinstance(taken.standing, Missing) else taken.standing.value.running
    return {"snapshot": taken, "stations": stations(taken), "fleet": fleet_table(running)}
