"""*Bundles*: what was compiled, what it will do on its NPU, and two of them beside each other."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from contracts.wire import Build, BuildList
from contracts.wire.bundle_report import BundleReport, ProfileReport
from services.dashboard import bundle_report
from services.dashboard.guard import Operator
from services.dashboard.languages import _
from services.dashboard.limits import LIMITS
from services.dashboard.lists import query_string
from services.dashboard.pages import missing_page, page
from services.dashboard.paths import segment
from services.dashboard.platform import Missing, Platform
from services.dashboard.sessions import Session
from services.kit.settings import settings

router = APIRouter()
HOME = "/console/bundles"
API = "/builds/v1/builds"


@router.get(HOME)
async def show_bundles(operator: Operator, cursor: Annotated[str, Query(max_length=512)] = "") -> Response:
    """A page of builds with their bundles."""
    asked = {"cursor": cursor} if cursor else {}
    async with Platform(settings().base_url, operator.token) as platform:
        found = await platform.get(BuildList, API, limit=LIMITS.page_rows, **asked)
    following = None if isinstance(found, Missing) else found.value.next_cursor
    return page(
        "bundles.html",
        session=operator,
        here=HOME,
        found=found,
        more=query_string({}, following),
        paged=bool(cursor),
    )


@router.get(HOME + "/compare")
async def compare_bundles(
    operator: Operator,
    build: Annotated[list[str], Query(max_length=8)] = [],  # noqa: B006  # FastAPI copies it
) -> Response:
    """Two bundles, the first one as the measure."""
    if len(build) != 2:
        return _choose(operator)
    async with Platform(settings().base_url, operator.token) as platform:
        first, second = await asyncio.gather(
            *(platform.get(BundleReport, f"{API}/{segment(name)}/report") for name in build)
        )
    for found in (first, second):
        if isinstance(found, Missing):
            return missing_page(operator, _("Compare bundles"), found, HOME)
    assert not isinstance(first, Missing)
    assert not isinstance(second, Missing)
    return page(
        "bundles_compared.html",
        session=operator,
        here=HOME,
        first=first.value,
        second=second.value,
        rows=bundle_report.compare(first.value, second.value),
        size=bundle_report.Pair("size", first.value.size, second.value.size),
        pieces=sorted({*first.value.pieces, *second.value.pieces}),
    )


@router.get(HOME + "/{build_id}")
async def show_bundle(
    operator: Operator, build_id: str, profile: Annotated[int, Query(ge=0, le=10_000)] = 0
) -> Response:
    """One bundle; one of its programs at one size in full."""
    address = f"{API}/{segment(build_id)}"
    async with Platform(settings().base_url, operator.token) as platform:
        build, report, frame = await asyncio.gather(
            platform.get(Build, address),
            platform.get(BundleReport, f"{address}/report"),
            platform.get(ProfileReport, f"{address}/report/profiles/{profile}"),
        )
    if isinstance(report, Missing):
        return missing_page(operator, _("Bundle of build %(id)s", id=build_id[:64]), report, HOME)
    drawn = None if isinstance(frame, Missing) else frame.value
    return page(
        "bundle.html",
        session=operator,
        here=HOME,
        build=build,
        report=report.value,
        frame=frame,
        number=profile,
        boxes=bundle_report.memory_map(drawn) if drawn else (),
        rows=bundle_report.timeline(drawn) if drawn else (),
    )


def _choose(operator: Session) -> Response:
    return page(
        "message.html",
        status=422,
        session=operator,
        title=_("Compare bundles"),
        lead=_("Choose two bundles, not more and not fewer."),
        remedy=_("Go back, mark two of them and compare again."),
        back=HOME,
    )
