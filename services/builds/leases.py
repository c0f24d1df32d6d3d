"""Leases on builds: who works on one now, for how long, and what happens when he dies.

A worker claims a row, renews the claim while it works and gives it back with the result in one transaction. A claim
that is not renewed runs out, the sweep sends the build again, and another worker goes on. The owner's name is the
fencing token: a worker that lost its lease cannot write a result any more.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import sqlalchemy.exc
import structlog
from sqlalchemy import and_, func, or_, select, update
from sqlalchemy.orm import Session

from contracts.wire import BuildState
from services.builds.limits import WORK
from services.builds.models import BuildRow
from services.builds.settings import builds_settings
from services.kit.database import transaction

log = structlog.get_logger(__name__)


class LeaseLost(Exception):
    """Another worker owns the build now; drop the work."""


@dataclass(frozen=True)
class Lease:
    """The right to work on one build, as long as it is renewed."""

    build_id: str
    owner: str
    attempt: int


def claim(build_id: str, states: Sequence[BuildState], during: BuildState) -> Lease | None:
    """Take the build if it is in one of `states` and nobody holds it; it then is in state `during`."""
    owner = secrets.token_hex(8)
    with transaction() as session:
        row = session.scalars(select(BuildRow).where(BuildRow.id == build_id).with_for_update()).one_or_none()
        if row is None or row.state not in {state.value for state in states} or not _free(session, row):
            return None
        row.state = during.value
        row.lease_owner, row.lease_until = owner, func.now() + _interval(builds_settings().lease_s)
        row.attempts = row.attempts + 1
        row.touched_at = func.now()
        return Lease(build_id, owner, row.attempts)


def renew(lease: Lease) -> None:
    """Hold on for another period; raises LeaseLost."""
    with transaction() as session:
        mine = and_(BuildRow.id == lease.build_id, BuildRow.lease_owner == lease.owner)
        until = func.now() + _interval(builds_settings().lease_s)
        found = session.execute(update(BuildRow).where(mine).values(lease_until=until).returning(BuildRow.id)).first()
    if found is None:
        raise LeaseLost(f"build {lease.build_id} was taken over by another worker")


@contextmanager
def held(lease: Lease) -> Iterator[None]:
    """Renew the lease in the background while the block runs."""
    done = threading.Event()
    renewer = threading.Thread(target=_renew_until, args=(lease, done), name=f"lease-{lease.build_id}", daemon=True)
    renewer.start()
    try:
        yield
    finally:
        done.set()
        renewer.join(timeout=builds_settings().lease_s)


def owned(session: Session, lease: Lease) -> BuildRow:
    """The row, locked, to write a result into; raises LeaseLost."""
    query = select(BuildRow).where(BuildRow.id == lease.build_id, BuildRow.lease_owner == lease.owner)
    row = session.scalars(query.with_for_update()).one_or_none()
    if row is None:
        raise LeaseLost(f"build {lease.build_id} was taken over by another worker")
    return row


def release(row: BuildRow) -> None:
    """Give the row back, in the transaction that writes the result."""
    row.lease_owner, row.lease_until = None, None
    row.touched_at = func.now()


def stuck(session: Session) -> Sequence[BuildRow]:
    """Unfinished builds that nobody holds and nobody touched for one sweep: their message was lost."""
    quiet = BuildRow.touched_at < func.now() - _interval(WORK.sweep_s)
    free = or_(BuildRow.lease_until.is_(None), BuildRow.lease_until < func.now())
    query = select(BuildRow).where(BuildRow.finished.is_(None), quiet, free).order_by(BuildRow.touched_at)
    return session.scalars(query.limit(WORK.sweep_rows)).all()


def _renew_until(lease: Lease, done: threading.Event) -> None:
    while not done.wait(builds_settings().lease_s / WORK.renewals):
        try:
            renew(lease)
        except LeaseLost:
            log.warning("lease_lost", build=lease.build_id)
            return
        except sqlalchemy.exc.OperationalError:
            log.warning("lease_not_renewed", build=lease.build_id)


def _free(session: Session, row: BuildRow) -> bool:
    return row.lease_until is None or row.lease_until < (
        session.scalar(select(func.clock_timestamp())) or row.lease_until
    )


def _interval(seconds: float) -> object:
    return func.make_interval(0, 0, 0, 0, 0, 0, seconds)
