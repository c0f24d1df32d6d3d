"""*Flows*: runs of the flow engine, how far one is, and once more what failed. The drift service asks the engine."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query
from starlette.responses import RedirectResponse, Response

from contracts.wire.flow_runs import FlowRetry, FlowRunDetail, FlowRunList
from services.dashboard.guard import Operator, OwnForm
from services.dashboard.languages import _
from services.dashboard.limits import LIMITS
from services.dashboard.lists import query_string
from services.dashboard.pages import HEADERS, forbidden, missing_page, page
from services.dashboard.paths import segment
from services.dashboard.platform import Missing, Platform
from services.dashboard.sessions import Session
from services.kit.settings import settings

router = APIRouter()
HOME = "/console/flows"
API = "/drift/v1/flow-runs"
NEEDS = "drift:write"


@router.get(HOME)
async def show_flows(operator: Operator, cursor: Annotated[str, Query(max_length=512)] = "") -> Response:
    """A page of runs."""
    asked = {"cursor": cursor} if cursor else {}
    async with Platform(settings().base_url, operator.token) as platform:
        found = await platform.get(FlowRunList, API, limit=LIMITS.page_rows, **asked)
    following = None if isinstance(found, Missing) else found.value.next_cursor
    return page(
        "flows.html",
        session=operator,
        here=HOME,
        found=found,
        more=query_string({}, following),
        paged=bool(cursor),
    )


@router.get(HOME + "/{run_id}")
async def show_flow(operator: Operator, run_id: str) -> Response:
    """One run with the lines of its steps."""
    found = await _run(operator, run_id)
    if isinstance(found, Missing):
        return missing_page(operator, _("Flow run %(id)s", id=run_id[:64]), found, HOME)
    return page("flow.html", session=operator, here=HOME, run=found)


@router.get(HOME + "/{run_id}/retry")
async def confirm_retry(operator: Operator, run_id: str) -> Response:
    """What will happen; asks why."""
    return await _form(operator, run_id, "", "")


@router.post(HOME + "/{run_id}/retry")
async def retry(operator: OwnForm, run_id: str, reason: Annotated[str, Form(max_length=400)] = "") -> Response:
    """Ask for it once more."""
    if not operator.may(NEEDS):
        return forbidden(operator, NEEDS)
    if len(reason.strip()) < 3:
        return await _form(operator, run_id, reason, _("Say why, in at least three letters."))
    async with Platform(settings().base_url, operator.token) as platform:
        failed = await platform.post(f"{API}/{segment(run_id)}/retry", FlowRetry(reason=reason.strip()))
    if failed is not None:
        return missing_page(operator, _("%(what)s: nothing was done", what=_("Retry")), failed, HOME)
    return RedirectResponse(f"{HOME}/{segment(run_id)}", status_code=303, headers=HEADERS)


async def _run(operator: Session, run_id: str) -> FlowRunDetail | Missing:
    async with Platform(settings().base_url, operator.token) as platform:
        found = await platform.get(FlowRunDetail, f"{API}/{segment(run_id)}")
    return found if isinstance(found, Missing) else found.value


async def _form(operator: Session, run_id: str, reason: str, problem: str) -> Response:
    if not operator.may(NEEDS):
        return forbidden(operator, NEEDS)
    found = await _run(operator, run_id)
    if isinstance(found, Missing):
        return missing_page(operator, _("Flow run %(id)s", id=run_id[:64]), found, HOME)
    status = 422 if problem else 200
    return page(
        "flow_retry.html", status=status, session=operator, here=HOME, run=found, reason=reason, problem=problem
    )
