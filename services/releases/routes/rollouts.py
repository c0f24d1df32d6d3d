"""Rollouts: create, look, act. Edits carry the ETag that was seen in If-Match; 412 when somebody was faster."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response
from pydantic import BaseModel
from sqlalchemy import select
from sqlalchemy.orm import Session

from contracts.wire.releases import OperatorAction, Rollout, RolloutList, RolloutRequest
from services.kit.auth import Subject, requires
from services.kit.database import SessionDep
from services.kit.idempotency import IdempotencyKey, KeyReused, StillRunning, once
from services.kit.pages import Page, PageDep, page_of
from services.kit.problems import FieldError, MalformedPayload, declare
from services.releases import approval, rollouts, views
from services.releases.domain.machine import Event
from services.releases.errors import (
    BadSelector,
    LayerFull,
    NobodyMatches,
    NotApproved,
    NotReleasable,
    UnknownBundle,
    UnknownLayer,
    UnknownRollout,
    VersionMismatch,
    WrongState,
)
from services.releases.limits import ROLLOUT
from services.releases.models import DecisionRow, RolloutRow
from services.releases.preflight import Preflight, preflight
from services.releases.routes.device import SEEN

router = APIRouter(tags=["releases: rollouts"])
Reader = Annotated[Subject, requires("releases:read")]
Writer = Annotated[Subject, requires("releases:write")]
Halter = Annotated[Subject, requires("releases:halt")]
IfMatch = Annotated[str | None, Header(max_length=64)]
START_PROBLEMS = (NotReleasable, NobodyMatches, WrongState, LayerFull, NotApproved, StillRunning)
CREATE_PROBLEMS = declare(UnknownBundle, UnknownLayer, BadSelector, KeyReused, *START_PROBLEMS)
ACTION_PROBLEMS = declare(UnknownRollout, VersionMismatch, *START_PROBLEMS)
Change = Callable[[int | None], RolloutRow]


class DecisionItem(BaseModel):
    """One look of the verdict with everything it rests on."""

    id: int
    at: float
    stage: int
    decision: str
    why: str
    worst: str
    alpha_each: float
    alpha_spent: float
    code_version: str
    inputs: dict[str, Any]  # Any: JSON
    readings: list[dict[str, Any]]  # Any: JSON


@router.post("/v1/rollouts", status_code=201, responses=CREATE_PROBLEMS)
def create_rollout(
    request: RolloutRequest,
    subject: Writer,
    session: SessionDep,
    response: Response,
    key: IdempotencyKey = None,
) -> Rollout:
    """A staged release; with `auto_start` it begins at once and needs no person until something is wrong.

    Where two people decide, it waits as a draft, and begins when the second one approves it.
    """

    def work() -> Rollout:
        return views.rollout(session, rollouts.create(session, subject, request), looks=0)

    made = once(session, subject, key, request.model_dump_json().encode(), Rollout, work)
    response.headers["ETag"] = _etag(made.version)
    return made


@router.post("/v1/rollout-preflights", responses=declare(UnknownBundle, UnknownLayer, BadSelector))
def preflight_rollout(request: RolloutRequest, subject: Writer, session: SessionDep) -> Preflight:
    """Who a rollout would reach, who is left out and why, and what forbids it; nothing is started."""
    return preflight(session, subject, request, SEEN)


@router.get("/v1/rollouts")
def list_rollouts(
    _subject: Reader,
    session: SessionDep,
    request: PageDep,
    digest: Annotated[str, Query(pattern=r"^[0-9a-f]{0,96}$")] = "",
    looks: Annotated[int, Query(ge=0, le=1)] = 1,
) -> RolloutList:
    """Rollouts, newest first, each with its newest look or with none. `digest` picks those of one bundle."""
    rows = views.page(session, request, digest)
    page = page_of(rows, request, lambda one: one[0].id, lambda one: (one[0].created, one[0].id))
    shown = views.rollouts(session, rows[: request.limit], looks)
    return RolloutList(items=tuple(shown), next_cursor=page.next_cursor)


@router.get("/v1/rollouts/{rollout_id}", responses=declare(UnknownRollout))
def get_rollout(rollout_id: str, _subject: Reader, session: SessionDep, response: Response) -> Rollout:
    """One rollout with its stages, exposure counts, and the metrics over time."""
    row = _find(session, rollout_id)
    response.headers["ETag"] = _etag(row.version)
    return views.rollout(session, row, ROLLOUT.looks_shown)


@router.get("/v1/rollouts/{rollout_id}/decisions", responses=declare(UnknownRollout))
def list_decisions(rollout_id: str, _subject: Reader, session: SessionDep, request: PageDep) -> Page[DecisionItem]:
    """Every look that said something new, newest first, with inputs, bounds, alpha and code version."""
    _find(session, rollout_id)
    query = select(DecisionRow).where(DecisionRow.rollout_id == rollout_id).order_by(DecisionRow.id.desc())
    if request.after is not None:
        query = query.where(DecisionRow.id < request.key(int)[0])
    rows = session.scalars(query.limit(request.limit + 1)).all()
    return page_of(
        rows,
        request,
        lambda row: DecisionItem.model_validate(row, from_attributes=True),
        lambda row: (row.id,),
    )


@router.post("/v1/rollouts/{rollout_id}/approve", responses=ACTION_PROBLEMS)
def approve_rollout(
    rollout_id: str,
    action: OperatorAction,
    subject: Writer,
    session: SessionDep,
    response: Response,
    if_match: IfMatch = None,
    key: IdempotencyKey = None,
) -> Rollout:
    """Approve a draft that somebody else made; it starts when its maker wished so."""

    def change(version: int | None) -> RolloutRow:
        return approval.approve(session, subject, rollout_id, action.reason, version)

    return _changed(session, subject, f"approve {rollout_id}", change, action, if_match, key, response)


@router.post("/v1/rollouts/{rollout_id}/reject", responses=ACTION_PROBLEMS)
def reject_rollout(
    rollout_id: str,
    action: OperatorAction,
    subject: Writer,
    session: SessionDep,
    response: Response,
    if_match: IfMatch = None,
    key: IdempotencyKey = None,
) -> Rollout:
    """End a rollout that has not started, for good."""

    def change(version: int | None) -> RolloutRow:
        return approval.reject(session, subject, rollout_id, action.reason, version)

    return _changed(session, subject, f"reject {rollout_id}", change, action, if_match, key, response)


@router.post("/v1/rollouts/{rollout_id}/start", responses=ACTION_PROBLEMS)
def start_rollout(
    rollout_id: str,
    action: OperatorAction,
    subject: Writer,
    session: SessionDep,
    response: Response,
    if_match: IfMatch = None,
    key: IdempotencyKey = None,
) -> Rollout:
    """Start a draft: pre-flight, then the first stage."""
    return _act(session, subject, rollout_id, Event.START, action, if_match, key, response)


@router.post("/v1/rollouts/{rollout_id}/pause", responses=ACTION_PROBLEMS)
def pause_rollout(
    rollout_id: str,
    action: OperatorAction,
    subject: Halter,
    session: SessionDep,
    response: Response,
    if_match: IfMatch = None,
    key: IdempotencyKey = None,
) -> Rollout:
    """Expose no further devices; those that have the bundle keep it, and harm still rolls it back."""
    return _act(session, subject, rollout_id, Event.PAUSE, action, if_match, key, response)


@router.post("/v1/rollouts/{rollout_id}/resume", responses=ACTION_PROBLEMS)
def resume_rollout(
    rollout_id: str,
    action: OperatorAction,
    subject: Writer,
    session: SessionDep,
    response: Response,
    if_match: IfMatch = None,
    key: IdempotencyKey = None,
) -> Rollout:
    """Go on with a paused rollout; its stage soaks anew."""
    return _act(session, subject, rollout_id, Event.RESUME, action, if_match, key, response)


@router.post("/v1/rollouts/{rollout_id}/rollback", responses=ACTION_PROBLEMS)
def rollback_rollout(
    rollout_id: str,
    action: OperatorAction,
    subject: Halter,
    session: SessionDep,
    response: Response,
    if_match: IfMatch = None,
    key: IdempotencyKey = None,
) -> Rollout:
    """Take the bundle back from every device, also after the rollout completed."""
    return _act(session, subject, rollout_id, Event.ROLL_BACK, action, if_match, key, response)


def _act(
    session: Session,
    subject: Subject,
    rollout_id: str,
    event: Event,
    action: OperatorAction,
    if_match: str | None,
    key: str | None,
    response: Response,
) -> Rollout:
    def change(version: int | None) -> RolloutRow:
        return rollouts.act(session, subject, rollout_id, event, action.reason, version)

    return _changed(session, subject, f"{event} {rollout_id}", change, action, if_match, key, response)


def _changed(
    session: Session,
    subject: Subject,
    what: str,
    change: Change,
    action: OperatorAction,
    if_match: str | None,
    key: str | None,
    response: Response,
) -> Rollout:
    version = _version(if_match)
    request = f"{what} {action.model_dump_json()}".encode()

    def work() -> Rollout:
        return views.rollout(session, change(version), looks=1)

    changed = once(session, subject, key, request, Rollout, work)
    response.headers["ETag"] = _etag(changed.version)
    return changed


def _find(session: Session, rollout_id: str) -> RolloutRow:
    row = session.get(RolloutRow, rollout_id)
    if row is None:
        raise UnknownRollout(f"there is no rollout {rollout_id[:64]}; list them with GET /releases/v1/rollouts")
    return row


def _etag(version: int) -> str:
    return f'"{version}"'


def _version(if_match: str | None) -> int | None:
    if if_match is None or if_match.strip() == "*":
        return None
    text = if_match.strip().strip('"')
    if not text.isdigit():
        errors = [FieldError("/header/if-match", "not an ETag of a rollout")]
        raise MalformedPayload("If-Match must be the ETag that GET gave", errors=errors)
    return int(text)
