"""Four eyes: a rollout is approved or rejected by a person who made neither it nor its bundle.

A rollout never changes between its making and its start, so an approval is for exactly what was seen; the expected
version guards the rest. Whether an approval is needed is a setting of the platform (`EDGELOOP_FOUR_EYES`), out of
reach of any token.
"""

from __future__ import annotations

from sqlalchemy.orm import Session

from services.kit.audit import record
from services.kit.auth import Subject
from services.releases import bundles, rollouts
from services.releases.domain.machine import WAITING, Event
from services.releases.errors import NotApproved, WrongState
from services.releases.models import RolloutRow


def approve(session: Session, subject: Subject, rollout_id: str, reason: str, version: int | None) -> RolloutRow:
    """Let a draft start, and start it when its maker wished so. Raises NotApproved for whoever may not approve it."""
    row = rollouts.seen(session, rollout_id, version)
    _check_second_person(session, subject, row)
    row.state = rollouts.after_event(row, Event.APPROVE)
    row.approved_by, row.cause = str(subject), ""
    row.human_actions += 1
    row.version += 1
    record(session, subject, "rollout.approved", f"rollout:{row.id}", {"why": reason, "created_by": row.created_by})
    if row.auto_start:
        rollouts.start(session, subject, row)
    session.flush()
    return row


def reject(session: Session, subject: Subject, rollout_id: str, reason: str, version: int | None) -> RolloutRow:
    """End a rollout that has not started, for good."""
    row = rollouts.seen(session, rollout_id, version)
    if row.state not in WAITING:
        raise WrongState(f"a {row.state} rollout cannot be rejected; roll it back")
    rollouts.kill(session, row, f"rejected: {reason}", subject)
    session.flush()
    return row


def _check_second_person(session: Session, subject: Subject, row: RolloutRow) -> None:
    if subject.kind != "operator":
        raise NotApproved("a service cannot approve; a person with an operator's token can")
    makers = {row.created_by: "the rollout", bundles.find(session, row.digest).created_by: "its bundle"}
    made = makers.get(str(subject))
    if made is not None:
        raise NotApproved(f"{subject} made {made}; somebody else has to approve {row.id}")
