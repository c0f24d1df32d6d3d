"""What was refused at the door, counted by day and reason; nothing else of it is kept."""

from __future__ import annotations

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from services.telemetry.limits import LIMITS
from services.telemetry.models import Refusal


def by_reason(session: Session) -> dict[str, int]:
    """How many messages were refused in the days that are kept."""
    counts = select(Refusal.reason, func.sum(Refusal.count)).group_by(Refusal.reason).order_by(Refusal.reason)
    return {str(reason): int(count) for reason, count in session.execute(counts)}


def forget(session: Session, today: int) -> None:
    """Delete counts that are older than `LIMITS.refusal_days`."""
    session.execute(delete(Refusal).where(Refusal.day < today - LIMITS.refusal_days))
