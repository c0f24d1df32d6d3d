"""Actions of DDI devices: one at a time, opened and cancelled as the state document says, ended by the device's word.

    waiting ──confirmed──> open ──closed──> finished | failed
       └────denied──────> denied      │  ▲
                                  canceling ──closed──> canceled      (rejected: open again)

Invariants: an action that ended never moves again; a bundle that failed on a device or was denied there is offered
again only by a newer rollout of it; a cancel is never taken for granted before the device says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from contracts.device import DeviceTags
from contracts.state import Target, choose_target, verify_state
from contracts.wire.feedback import FeedbackBatch, InstallStage
from services.kit.problems import NotFound, TooManyRequests
from services.releases import feedback, service, state_document
from services.releases.ddi.messages import Confirmation, Execution, Feedback, Finished
from services.releases.ddi.states import CANCELED, CANCELING, DENIED, FAILED, FINISHED, LIVE, OPEN, WAITING
from services.releases.errors import ActionGone
from services.releases.models import DdiAction, DdiDevice, Device, RolloutRow
from services.releases.state_signers import verifiers

MOST_HISTORY = 1_000
STAGES = {Execution.DOWNLOADED: InstallStage.DOWNLOADED, Execution.PROCEEDING: InstallStage.INSTALLED}


def current(session: Session, device: Device, own: DdiDevice) -> DdiAction | None:
    """The device's action as the state document wants it now: opened, left, or asked to cancel."""
    target, action = _wanted(session, device), _live(session, device.id)
    if action is not None:
        if target is None or target.digest != action.digest:
            action.state = CANCELED if action.state == WAITING else CANCELING
        return action if action.state in LIVE else None
    if target is None or target.digest == device.running_digest or _spent(session, device.id, target.digest):
        return None
    state, now = OPEN if own.auto_confirm else WAITING, service.clock().now()
    action = DdiAction(device_id=device.id, digest=target.digest, state=state, created=now, history=[])
    session.add(action)
    session.flush()
    return action


def of_device(session: Session, device: Device, action_id: int, states: Sequence[str] = ()) -> DdiAction:
    """One of the device's actions, in one of these states; raises NotFound."""
    action = session.get(DdiAction, action_id, with_for_update=True) if action_id < 2**31 else None
    if action is None or action.device_id != device.id or (states and action.state not in states):
        raise NotFound(f"device {device.id} has no such action {action_id} now; poll again")
    return action


def progress(session: Session, device: Device, own: DdiDevice, action: DdiAction, said: Feedback) -> None:
    """What the device says of an installation. Raises ActionGone once the action ended."""
    if action.state not in (OPEN, CANCELING):
        raise ActionGone(f"action {action.id} is {action.state}; poll again")
    _note(action, said.status.execution.value, said.status.details)
    if said.status.execution is not Execution.CLOSED:
        stage = STAGES.get(said.status.execution)
        if stage is not None:
            _tell(session, device, action, stage)
        return
    failed = said.status.result.finished is Finished.FAILURE
    action.state = FAILED if failed else FINISHED
    if not failed:
        own.installed_action = action.id
        device.running_digest = action.digest
    _tell(session, device, action, InstallStage.ROLLED_BACK if failed else InstallStage.CONFIRMED)


def cancelling(action: DdiAction, said: Feedback) -> None:
    """What the device says of a cancel: closed accepts it, rejected refuses it, all else is on its way."""
    if action.state != CANCELING:
        raise ActionGone(f"action {action.id} is {action.state}, not being cancelled; poll again")
    _note(action, f"cancel {said.status.execution.value}", said.status.details)
    if said.status.execution is Execution.CLOSED:
        action.state = CANCELED
    elif said.status.execution is Execution.REJECTED:
        action.state = OPEN


def consent(action: DdiAction, said: Confirmation, details: Sequence[str]) -> None:
    """A user's word on an action that waits for it."""
    if action.state != WAITING:
        raise ActionGone(f"action {action.id} is {action.state} and waits for nobody; poll again")
    _note(action, said.value, details)
    action.state = OPEN if said is Confirmation.CONFIRMED else DENIED


def _wanted(session: Session, device: Device) -> Target | None:
    served = state_document.latest(session) or state_document.publish(session)
    state = verify_state(served.document, verifiers(session), 0)
    if state.killed:
        return None
    return choose_target(state, device.id, DeviceTags.model_validate(device.tags), device.agent_version)


def _live(session: Session, device_id: str) -> DdiAction | None:
    query = select(DdiAction).where(DdiAction.device_id == device_id, DdiAction.state.in_(LIVE))
    return session.scalars(query.order_by(DdiAction.id.desc()).limit(1).with_for_update()).first()


def _spent(session: Session, device_id: str, digest: str) -> bool:
    """It failed here or was denied here, and no newer rollout asks again."""
    newest = select(func.max(RolloutRow.created)).where(RolloutRow.digest == digest)
    since = session.scalar(newest) or 0.0
    condition = (DdiAction.device_id == device_id, DdiAction.digest == digest, DdiAction.state.in_((FAILED, DENIED)))
    query = select(DdiAction.id).where(*condition, DdiAction.created >= since).limit(1)
    return session.scalars(query).first() is not None


def _note(action: DdiAction, what: str, details: Sequence[str]) -> None:
    if len(action.history) >= MOST_HISTORY:
        raise TooManyRequests(f"action {action.id} has {MOST_HISTORY} statuses already; close it", retry_after_s=3_600)
    action.history = [*action.history, {"status": what, "messages": list(details)[-10:]}]


def _tell(session: Session, device: Device, action: DdiAction, stage: InstallStage) -> None:
    """The same as feedback of our own agents."""
    event: dict[str, Any] = {
        "event_id": f"ddi-{action.id}-{stage.value}",
        "digest": action.digest,
        "stage": stage.value,
        "sequence": device.sequence + 1,
    }
    batch = {"tags": device.tags, "running_digest": device.running_digest, "installs": [event]}
    feedback.receive(session, device.id, FeedbackBatch.model_validate(batch), service.clock().now())
