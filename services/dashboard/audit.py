"""*Audit*: who did what to what, newest first, and whether the trail still is what was written."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from contracts.wire.base import Answer
from services.dashboard.guard import Operator
from services.dashboard.limits import LIMITS
from services.dashboard.lists import query_string
from services.dashboard.pages import forbidden, page
from services.dashboard.platform import Missing, Platform
from services.kit.settings import settings

router = APIRouter()
HOME = "/console/audit"
NEEDS = "audit:read"
Text = Annotated[str, Query(max_length=200)]
Cursor = Annotated[str, Query(max_length=512)]


class AuditItem(Answer):
    """One entry."""

    id: int
    at: datetime
    actor: str
    action: str
    subject: str
    detail: dict[str, Any]  # Any: JSON


class AuditList(Answer):
    """A page of entries, newest first."""

    items: tuple[AuditItem, ...]
    next_cursor: str | None = None


class Verification(Answer):
    """What a walk along the hash chain found."""

    ok: bool
    entries: int
    head: str
    fault: str = ""


@router.get(HOME)
async def show_audit(
    operator: Operator,
    actor: Text = "",
    action: Text = "",
    subject: Text = "",
    cursor: Cursor = "",
    check: bool = False,
) -> Response:
    """A page of the trail; with `check` its chain is walked, which takes its time on a long one."""
    if not operator.may(NEEDS):
        return forbidden(operator, NEEDS)
    wanted = {"actor": actor.strip(), "action": action.strip(), "subject": subject.strip()}
    given = {name: value for name, value in wanted.items() if value}
    asked = {**given, **({"cursor": cursor} if cursor else {})}
    async with Platform(settings().base_url, operator.token) as platform:
        found = await platform.get(AuditList, "/releases/v1/audit", limit=LIMITS.page_rows, **asked)
        chain = await platform.get(Verification, "/releases/v1/audit/verification") if check else None
    following = None if isinstance(found, Missing) else found.value.next_cursor
    return page(
        "audit.html",
        session=operator,
        here=HOME,
        found=found,
        chain=chain,
        wanted=wanted,
        filtered=bool(given),
        more=query_string(given, following),
        paged=bool(cursor),
    )
