"""The lock between writers and the relay: shared while a row is not committed, alone to know that all are.

Ids are given out before a commit and become visible in another order. Whoever holds the lock alone knows that no id
below the highest visible one can still appear.
"""

from __future__ import annotations

import zlib

from sqlalchemy import text
from sqlalchemy.orm import Session

from services.telemetry.limits import LIMITS


def writing(session: Session, table: str) -> None:
    """Hold the lock with other writers until the end of this transaction. Call it before the first insert."""
    session.execute(text("SELECT pg_advisory_xact_lock_shared(:key)"), {"key": _key(table)})


def alone(session: Session, table: str) -> None:
    """Wait for the writers that are under way, and hold the lock alone until the end of this transaction.

    Raises OperationalError after `LIMITS.settle_wait_ms`, so that one stuck writer does not hold up the others.
    """
    session.execute(text(f"SET LOCAL lock_timeout = {LIMITS.settle_wait_ms}"))
    session.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _key(table)})


def _key(table: str) -> int:
    return zlib.crc32(f"telemetry.{table}".encode()) | (1 << 40)
