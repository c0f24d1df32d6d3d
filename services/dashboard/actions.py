"""Buttons that change something: each leads to a page that says what will happen, asks why, and then does it once.

The page carries the version that the operator saw; when the rollout moved on in between, nothing is done (412 from
the service becomes "look again"). Everything works without script: GET page, POST form, redirect.
"""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Form
from starlette.responses import RedirectResponse, Response

from contracts.wire import KillSwitch, OperatorAction, Rollout, RolloutState
from services.dashboard.guard import Operator, OwnForm
from services.dashboard.languages import _, marked
from services.dashboard.pages import HEADERS, forbidden, page
from services.dashboard.paths import segment
from services.dashboard.platform import Missing, Platform
from services.dashboard.sessions import Session
from services.kit.settings import settings

router = APIRouter()

NEEDS = "releases:write"
HALTS = "releases:halt"
Reason = Annotated[str, Form(max_length=400)]


@dataclass(frozen=True)
class Action:
    """One verb, the same in the page, the API and the audit trail."""

    verb: str
    label: str
    effect: str
    allowed: tuple[RolloutState, ...]
    danger: bool = False
    needs: str = NEEDS


WAITING = (RolloutState.DRAFT, RolloutState.APPROVED)
SHOWN = (RolloutState.RUNNING, RolloutState.PAUSED, RolloutState.COMPLETED)
ACTIONS = {
    action.verb: action
    for action in (
        Action("start", marked("Start"), marked("The devices of the first stage get the new bundle."), WAITING),
        Action(
            "approve",
            marked("Approve"),
            marked("A second person says yes. The rollout starts when its maker wished so."),
            (RolloutState.DRAFT,),
        ),
        Action("reject", marked("Reject"), marked("The rollout ends before it started, for good."), WAITING, True),
        Action(
            "pause",
            marked("Pause"),
            marked("Devices that have the new bundle keep it; no further device gets it."),
            (RolloutState.RUNNING,),
            needs=HALTS,
        ),
        Action(
            "resume",
            marked("Resume"),
            marked("The rollout goes on from the stage where it stopped."),
            (RolloutState.PAUSED,),
        ),
        Action(
            "rollback",
            marked("Roll back"),
            marked("Every device returns to the bundle that it ran before. This ends the rollout."),
            SHOWN,
            True,
            HALTS,
        ),
    )
}


@router.get("/console/rollouts/{rollout_id}/{verb}")
async def confirm_action(operator: Operator, rollout_id: str, verb: str) -> Response:
    """What will happen, and why."""
    action = ACTIONS.get(verb)
    if action is None:
        return _unknown(operator, verb)
    if not operator.may(action.needs):
        return forbidden(operator, action.needs)
    found = await _rollout(operator, rollout_id)
    if isinstance(found, Missing):
        return _failed(operator, _(action.label), found, "/")
    return _confirm(operator, action, found, "", "")


@router.post("/console/rollouts/{rollout_id}/{verb}")
async def do_action(
    operator: OwnForm,
    rollout_id: str,
    verb: str,
    version: Annotated[int, Form()],
    reason: Reason = "",
) -> Response:
    """Do it once, if the rollout still is as the operator saw it."""
    action = ACTIONS.get(verb)
    if action is None:
        return _unknown(operator, verb)
    if not operator.may(action.needs):
        return forbidden(operator, action.needs)
    address = f"/console/rollouts/{segment(rollout_id)}"
    if len(reason.strip()) < 3:
        found = await _rollout(operator, rollout_id)
        if isinstance(found, Missing):
            return _failed(operator, _(action.label), found, "/")
        return _confirm(
            operator, action, found, reason, _("Say why, in at least three letters: it goes into the audit trail.")
        )
    async with Platform(settings().base_url, operator.token) as platform:
        failed = await platform.post(
            f"/releases/v1/rollouts/{segment(rollout_id)}/{verb}",
            OperatorAction(reason=reason.strip()),
            {"If-Match": f'"{version}"'},
        )
    if failed is not None:
        return _failed(operator, _(action.label), failed, address)
    return RedirectResponse(address, status_code=303, headers=HEADERS)


@router.get("/console/kill-switch")
async def confirm_kill(operator: Operator) -> Response:
    """Stop every NPU program on every device, or allow them again."""
    if not operator.may(HALTS):
        return forbidden(operator, HALTS)
    return page("kill.html", session=operator, problem="", reason="")


@router.post("/console/kill-switch")
async def do_kill(
    operator: OwnForm,
    killed: Annotated[bool, Form()],
    reason: Reason = "",
    word: Annotated[str, Form(max_length=20)] = "",
) -> Response:
    """Do it once. To stop, the word must be typed: one slip of a finger is not enough."""
    needs = HALTS if killed else NEEDS
    if not operator.may(needs):
        return forbidden(operator, needs)
    if len(reason.strip()) < 3:
        return page(
            "kill.html", status=422, session=operator, problem=_("Say why, in at least three letters."), reason=reason
        )
    if killed and word.strip().lower() != "stop":
        return page(
            "kill.html", status=422, session=operator, problem=_("Type the word stop to confirm."), reason=reason
        )
    async with Platform(settings().base_url, operator.token) as platform:
        failed = await platform.post("/releases/v1/kill-switch", KillSwitch(killed=killed, reason=reason.strip()))
    if failed is not None:
        return _failed(operator, _("Kill switch"), failed, "/console/kill-switch")
    done = (
        _("Every device stops the NPU program at its next contact.")
        if killed
        else _("Devices may run the NPU program again.")
    )
    return page(
        "message.html",
        session=operator,
        title=_("Done"),
        lead=done,
        remedy=_("Devices hear of it within 30 seconds."),
        back="/",
    )


async def _rollout(operator: Session, rollout_id: str) -> Rollout | Missing:
    async with Platform(settings().base_url, operator.token) as platform:
        found = await platform.get(Rollout, f"/releases/v1/rollouts/{segment(rollout_id)}")
    return found if isinstance(found, Missing) else found.value


def _confirm(operator: Session, action: Action, rollout: Rollout, reason: str, problem: str) -> Response:
    stage = rollout.stages[min(rollout.stage, len(rollout.stages) - 1)] if rollout.stages else None
    status = 422 if problem else 200
    return page(
        "confirm.html",
        status=status,
        session=operator,
        action=action,
        rollout=rollout,
        stage=stage,
        possible=rollout.state in action.allowed,
        reason=reason,
        problem=problem,
    )


def _failed(operator: Session, title: str, missing: Missing, back: str) -> Response:
    moved = missing.status in (409, 412)
    return page(
        "message.html",
        status=missing.status or 503,
        session=operator,
        title=_("%(what)s: nothing was done", what=title),
        lead=_("The rollout moved on since you looked.")
        if missing.status == 412
        else _("The service %(reason)s", reason=missing.reason),
        remedy=_("Look at it again and decide anew.") if moved else _("Try again when the cause is gone."),
        back=back,
    )


def _unknown(operator: Session, verb: str) -> Response:
    return page(
        "message.html",
        status=404,
        session=operator,
        title=_("There is no such action"),
        lead=_("%(verb)s is none of: %(known)s.", verb=verb[:40], known=", ".join(ACTIONS)),
        remedy=_("Use the buttons of the rollout's page."),
        back="/",
    )
