"""What holds for the whole fleet at once: the kill switch and revoked bundles."""

from __future__ import annotations

from sqlalchemy import select, true
from sqlalchemy.orm import Session, aliased
from sqlalchemy.sql.elements import ColumnElement

from contracts.state import MAX_REVOKED
from services.kit.audit import record
from services.kit.auth import Subject
from services.releases import bundles, rollouts, service, state_document
from services.releases.domain.machine import ACTIVE, WAITING
from services.releases.errors import NotReleasable
from services.releases.models import Alert, BundleRow, Control, RolloutRow


def state(session: Session) -> Control:
    """The fleet-wide row as it is."""
    return session.get_one(Control, state_document.CONTROL_ID)


def with_alerts(session: Session, most: int) -> tuple[Control, list[Alert]]:
    """The fleet-wide row and the newest alerts, newest first; one query."""
    newest = select(Alert).order_by(Alert.id.desc()).limit(most).subquery()
    shown = aliased(Alert, newest)
    query = select(Control, shown).outerjoin(newest, true()).where(Control.id == state_document.CONTROL_ID)
    rows = session.execute(query.order_by(shown.id.desc())).all()
    return rows[0][0], [alert for _, alert in rows if alert is not None]


def set_kill_switch(session: Session, subject: Subject, killed: bool, reason: str) -> Control:
    """Stop (or allow again) every NPU program of ours; rollouts in progress end as killed."""
    if killed:
        _kill_rollouts(session, subject, reason, RolloutRow.state.in_(ACTIVE))
    control = state_document.lock_control(session)
    control.killed, control.kill_reason = killed, reason
    _note(session, subject, "kill-switch.on" if killed else "kill-switch.off", "fleet", reason)
    state_document.publish(session)
    return control


def revoke(session: Session, subject: Subject, digest: str, reason: str) -> BundleRow:
    """Forbid a bundle everywhere: its rollouts end, no device chooses it again."""
    bundle = bundles.find(session, digest)
    if not bundle.revoked and bundles.revoked_count(session) >= MAX_REVOKED:
        raise NotReleasable(f"{MAX_REVOKED} bundles are revoked already; raise the security epoch floor instead")
    unfinished = RolloutRow.state.in_(ACTIVE | WAITING) & (RolloutRow.digest == digest)
    _kill_rollouts(session, subject, reason, unfinished)
    bundle.revoked = True
    _note(session, subject, "bundle.revoked", f"bundle:{digest}", reason)
    state_document.publish(session)
    return bundle


def _kill_rollouts(session: Session, subject: Subject, reason: str, which: ColumnElement[bool]) -> None:
    query = select(RolloutRow).where(which).order_by(RolloutRow.id).with_for_update(key_share=True)
    for row in session.scalars(query).all():
        rollouts.kill(session, row, reason, subject)


def _note(session: Session, subject: Subject, action: str, what: str, reason: str) -> None:
    record(session, subject, action, what, {"reason": reason})
    session.add(Alert(kind=action, subject=what, detail=reason, created=service.clock().now()))
