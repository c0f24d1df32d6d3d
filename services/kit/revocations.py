"""Takes revoked tokens out of the cache, also those whose revocation the cache missed because it was down.

A commit takes its tokens out at once (`services.kit.auth`). What that could not do is made good by a sweep: everything
that the database has revoked since the **mark** is taken out, and the mark, which is a time of the database, is moved.
The mark lies in the cache, beside what it speaks of: a cache that was away, was restored from an older copy or lost
everything has an older mark or none, and the next sweep begins there.

A worker sweeps every `REVOCATIONS.sweep_s`. Where it does not, whoever looks a token up finds the mark late and sweeps
first, one process at a time. So a revoked token may read on for `POLL_TOKENS.memory_s` and `REVOCATIONS.late_s` at the
most, counted from the revocation or from the moment when cache and database answer again; and a poll that has nothing
to look up costs neither a read of the database nor one more of the cache.
"""

from __future__ import annotations

import time

import redis
import structlog
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from services.kit import token_cache
from services.kit.database import transaction, try_lock
from services.kit.limits import POLL_TOKENS, REVOCATIONS
from services.kit.models import Token

log = structlog.get_logger(__name__)
LOCK = "kit.revocations"


def sweep(session: Session) -> int:
    """Take out what was revoked since the mark; returns how many tokens that were. Raises RedisError.

    The sweep goes back `overlap_s` behind the mark: a revocation counts from the begin of its transaction, and a
    look-up that read the token just before may remember it just after.
    """
    now: float = session.scalar(select(func.extract("epoch", func.clock_timestamp()))) or 0.0
    mark = token_cache.mark()
    oldest = float(now) - POLL_TOKENS.cached_s - REVOCATIONS.overlap_s
    since = max(oldest, (mark if mark is not None else 0.0) - REVOCATIONS.overlap_s)
    query = select(Token.id).where(Token.revoked_at > func.to_timestamp(since)).order_by(Token.revoked_at)
    swept = 0
    for ids in session.scalars(query.execution_options(yield_per=REVOCATIONS.batch)).partitions():
        token_cache.take_out(ids)
        swept += len(ids)
    token_cache.move_mark(float(now))
    return swept


def sweep_if_late(mark: float | None) -> bool:
    """Sweep when nobody did for `late_s`; True when this call did, so that what the cache says may have changed."""
    if mark is not None and time.time() - mark < REVOCATIONS.late_s:
        return False
    try:
        with transaction() as session:
            if not try_lock(session, LOCK):
                return False
            swept = sweep(session)
    except (SQLAlchemyError, redis.RedisError) as error:
        log.warning("revocations_not_swept", error=type(error).__name__)
        return False
    log.info("revocations_swept_late", tokens=swept)
    return True
