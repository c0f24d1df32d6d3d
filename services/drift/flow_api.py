"""Routes about flow runs: what an alarm started, how far it is, and once more what failed."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter

from contracts.wire.flow_runs import FlowRetry, FlowRunDetail, FlowRunInfo
from services.drift.flow_runs import FlowRunView, NoSuchFlowRun, NotRetried
from services.drift.limits import LIMITS
from services.drift.prefect import FlowsUnavailable
from services.kit.audit import record
from services.kit.auth import Subject, requires
from services.kit.database import SessionDep
from services.kit.pages import Page, PageDep, PageRequest, encode_cursor
from services.kit.problems import Conflict, MalformedPayload, NotFound, Unavailable, declare
from services.kit.settings import settings

router = APIRouter()
Reader = Annotated[Subject, requires("drift:read")]
Writer = Annotated[Subject, requires("drift:write")]


class UnknownFlowRun(NotFound):
    slug, title = "unknown-flow-run", "There is no such flow run"


class NotRetryable(Conflict):
    slug, title = "not-retryable", "The flow run cannot be retried"


@router.get("/v1/flow-runs", responses=declare(MalformedPayload, Unavailable))
def list_flow_runs(_: Reader, page: PageDep) -> Page[FlowRunInfo]:
    """Runs of the flow engine, the newest first; 503 with the reason while it does not answer."""
    offset = _offset(page)
    try:
        with FlowRunView(settings().prefect_api_url) as flows:
            found = flows.runs(page.limit + 1, offset)
    except FlowsUnavailable as error:
        raise Unavailable(str(error)) from error
    more = len(found) > page.limit
    return Page(items=found[: page.limit], next_cursor=encode_cursor(offset + page.limit) if more else None)


@router.get("/v1/flow-runs/{run_id}", responses=declare(UnknownFlowRun, Unavailable))
def get_flow_run(_: Reader, run_id: UUID) -> FlowRunDetail:
    """One run with its newest lines, which name the steps."""
    try:
        with FlowRunView(settings().prefect_api_url) as flows:
            return flows.run(run_id)
    except NoSuchFlowRun as error:
        raise UnknownFlowRun(str(error)) from error
    except FlowsUnavailable as error:
        raise Unavailable(str(error)) from error


@router.post("/v1/flow-runs/{run_id}/retry", responses=declare(UnknownFlowRun, NotRetryable, Unavailable))
def retry_flow_run(who: Writer, session: SessionDep, run_id: UUID, asked: FlowRetry) -> FlowRunInfo:
    """Let a failed run go on from its last finished step; 409 for one that did not fail."""
    try:
        with FlowRunView(settings().prefect_api_url) as flows:
            found = flows.retry(run_id)
    except NoSuchFlowRun as error:
        raise UnknownFlowRun(str(error)) from error
    except NotRetried as error:
        raise NotRetryable(str(error)) from error
    except FlowsUnavailable as error:
        raise Unavailable(str(error)) from error
    record(session, who, "flow.retry", f"flow-run:{run_id}", {"reason": asked.reason})
    return found


def _offset(page: PageRequest) -> int:
    """How many runs the client has; the engine pages by count only."""
    if page.after is None:
        return 0
    (offset,) = page.key(int)
    if not 0 <= offset <= LIMITS.flow_runs:
        raise MalformedPayload("the cursor is not one of this list; begin without one")
    return int(offset)
