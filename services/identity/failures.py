"""Lock-out: after a few wrong passwords in a row for one name, the next try must wait, longer each time.

A try counts as a failure before the password is looked at, and is forgotten when it was right, so tries that come at
once cannot slip past the count. Names that do not exist are treated alike, so the lock tells nobody which ones do.
"""

from __future__ import annotations

import hashlib
import math
from datetime import UTC, datetime, timedelta

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from services.identity.errors import Locked
from services.identity.limits import LOCK
from services.identity.models import FailureRow


def begin_try(session: Session, name: str, now: datetime | None = None) -> int:
    """Count a try and return how many there were in a row, with it. Raises Locked when it comes too early."""
    moment = now or datetime.now(UTC)
    fresh = {"name_hash": hash_of(name), "count": 0, "last_at": moment, "locked_until": moment}
    session.execute(insert(FailureRow).values(**fresh).on_conflict_do_nothing())
    row = session.scalars(select(FailureRow).where(FailureRow.name_hash == hash_of(name)).with_for_update()).one()
    if row.locked_until > moment:
        wait = math.ceil((row.locked_until - moment).total_seconds())
        raise Locked(f"too many wrong passwords for this name; wait {wait} s, then try again", retry_after_s=wait)
    if moment - row.last_at > timedelta(seconds=LOCK.forget_s):
        row.count = 0
    row.count += 1
    row.last_at = moment
    row.locked_until = moment + timedelta(seconds=_pause(row.count))
    _sweep(session, moment)
    return row.count


def forget(session: Session, name: str) -> int:
    """The password was right, or somebody unlocked: the next failure is the first. Returns the failures forgotten."""
    gone = delete(FailureRow).where(FailureRow.name_hash == hash_of(name)).returning(FailureRow.count)
    return session.scalar(gone) or 0


def _pause(count: int) -> float:
    """Seconds that the next try must wait after `count` failures in a row."""
    beyond = count - LOCK.free
    return 0.0 if beyond < 0 else min(LOCK.longest_s, LOCK.first_s * 2.0 ** min(beyond, 30))


def _sweep(session: Session, moment: datetime) -> None:
    old = select(FailureRow.name_hash).where(FailureRow.last_at < moment - timedelta(seconds=LOCK.forget_s))
    chosen = session.scalars(old.limit(LOCK.swept).with_for_update(skip_locked=True)).all()
    if chosen:
        session.execute(delete(FailureRow).where(FailureRow.name_hash.in_(chosen)))


def hash_of(name: str) -> bytes:
    """What the table keeps of a name."""
    return hashlib.sha256(b"sign-in:" + name.encode()).digest()
