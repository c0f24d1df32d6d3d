"""Days as tables: made ahead, made on demand, dropped when their time is over and their rows are taken over.

A partition of day D is `telemetry_days.<table>_<D>`; for segments it holds the 24 hours of D. Dropping one costs
nothing and leaves nothing to vacuum. Invariant: a partition is dropped only when its newest row lies behind the
stream's durable mark, so retention never overtakes the loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import structlog
from sqlalchemy import text
from sqlalchemy.orm import Session

from services.kit.database import transaction
from services.telemetry.limits import LIMITS

DAYS = "telemetry_days"
INLINE = "ALTER TABLE {name} SET (toast_tuple_target = 8160); ALTER TABLE {name} ALTER body SET STORAGE EXTERNAL"
"""A report has 2 KB of noise: neither compressed nor moved out of its row."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Partitioned:
    """A table cut into days; `step` units of its key make a day, `storage` is applied to each new partition."""

    table: str
    step: int
    storage: str = ""

    def create(self, day: int) -> str:
        """SQL that makes the partition of `day`."""
        name = f"{DAYS}.{self.table}_{day}"
        bounds = f"FROM ({day * self.step}) TO ({(day + 1) * self.step})"
        made = f"CREATE TABLE IF NOT EXISTS {name} PARTITION OF telemetry.{self.table} FOR VALUES {bounds}"
        return f"{made}; {self.storage.format(name=name)}" if self.storage else made


REPORTS = Partitioned("reports", 1, INLINE)
SEGMENTS = Partitioned("segments", 24)


def ensure(kind: Partitioned, days: Iterable[int]) -> int:
    """Make the partitions that are missing, each in a transaction of its own; returns how many.

    Raises OperationalError when the table cannot be locked within `LIMITS.ddl_wait_ms`; writers never wait longer.
    """
    with transaction() as session:
        missing = sorted(set(days) - set(present(session, kind)))
    for day in missing:
        with transaction() as session:
            _impatient(session)
            session.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": kind.table})
            session.execute(text(kind.create(int(day))))
            log.info("partition_made", table=kind.table, day=day)
    return len(missing)


def present(session: Session, kind: Partitioned) -> list[int]:
    """The days that have a partition, in order."""
    named = text("SELECT tablename FROM pg_tables WHERE schemaname = :schema AND tablename LIKE :like")
    names = session.scalars(named, {"schema": DAYS, "like": f"{kind.table}\\_%"})
    found = (re.fullmatch(rf"{kind.table}_(\d+)", name) for name in names)
    return sorted(int(match.group(1)) for match in found if match)


def drop_before(kind: Partitioned, day: int, finished: int) -> list[int]:
    """Drop the partitions of days before `day` whose rows all have ids up to `finished`; returns their days."""
    with transaction() as session:
        old = [each for each in present(session, kind) if each < day]
    return [each for each in old if _drop(kind, each, finished)]


def _drop(kind: Partitioned, day: int, finished: int) -> bool:
    name = f"{DAYS}.{kind.table}_{day}"
    with transaction() as session:
        _impatient(session)
        newest = session.scalar(text(f"SELECT max(id) FROM {name}")) or 0  # noqa: S608  # a number and a constant
        if newest > finished:
            log.warning("partition_kept", table=kind.table, day=day, newest=newest, finished=finished)
            return False
        session.execute(text(f"DROP TABLE {name}"))
    log.info("partition_dropped", table=kind.table, day=day)
    return True


def _impatient(session: Session) -> None:
    session.execute(text(f"SET LOCAL lock_timeout = {LIMITS.ddl_wait_ms}"))
