"""*Releases*: every rollout, newest first; those that wait for a person are marked. The detail page is in `api`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from contracts.wire import RolloutList
from services.dashboard.guard import Operator
from services.dashboard.limits import LIMITS
from services.dashboard.lists import query_string
from services.dashboard.pages import page
from services.dashboard.platform import Missing, Platform
from services.kit.settings import settings

router = APIRouter()
HOME = "/console/releases"


@router.get(HOME)
async def show_releases(operator: Operator, cursor: Annotated[str, Query(max_length=512)] = "") -> Response:
    """A page of rollouts."""
    asked = {"cursor": cursor} if cursor else {}
    async with Platform(settings().base_url, operator.token) as platform:
        found = await platform.get(RolloutList, "/releases/v1/rollouts", limit=LIMITS.page_rows, looks=0, **asked)
    following = None if isinstance(found, Missing) else found.value.next_cursor
    return page(
        "releases.html",
        session=operator,
        here=HOME,
        found=found,
        more=query_string({}, following),
        paged=bool(cursor),
    )
