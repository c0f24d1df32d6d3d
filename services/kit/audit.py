"""The audit trail: who did what to what. Entries are written in the transaction of the act, and only ever added.

When that transaction commits, its entries are linked to all before them (`audit_chain.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from services.kit.audit_chain import MARK
from services.kit.auth import Subject
from services.kit.models import AuditEntry
from services.kit.tracing import current_trace_id


def record(
    session: Session, actor: Subject | str, action: str, subject: str, detail: dict[str, Any] | None = None
) -> None:
    """Write down that `actor` did `action` to `subject` (say "rollout:42"). `detail` is JSON without secrets."""
    entry = AuditEntry(
        actor=str(actor), action=action, subject=subject, detail=detail or {}, trace_id=current_trace_id()
    )
    session.add(entry)
    session.info[MARK] = True


def entries(
    session: Session,
    *,
    subject: str | None = None,
    actor: str | None = None,
    action: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> Sequence[AuditEntry]:
    """The newest entries first, of one subject, one actor, actions that begin so, or of all.

    `before` is the id of the last one already seen.
    """
    query = select(AuditEntry).order_by(AuditEntry.id.desc()).limit(limit)
    if subject is not None:
        query = query.where(AuditEntry.subject == subject)
    if actor is not None:
        query = query.where(AuditEntry.actor == actor)
    if action is not None:
        query = query.where(AuditEntry.action.startswith(action, autoescape=True))
    if before is not None:
        query = query.where(AuditEntry.id < before)
    return session.scalars(query).all()
