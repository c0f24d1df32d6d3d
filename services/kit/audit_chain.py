"""The audit trail as a hash chain: what was written down cannot be changed, taken out or put between unnoticed.

Each entry's link is SHA-256 over the link before, its place and its content. Entries get their place when their
transaction commits, as its last statement, under one lock: places have no gaps and nobody waits for anything while
holding the lock. Whoever notes the newest link elsewhere notices also a trail that was cut or written anew.

Invariants: a committed entry has a place; `link_hash` is pure; the form that is hashed does not depend on the
database's spelling of numbers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import event, select, text
from sqlalchemy.orm import Session

from services.kit.models import AuditEntry

START = bytes(32)
MARK = "audited"
LOCK = "kit.audit"
PAGE = 1_000


@dataclass(frozen=True)
class Verification:
    """What a walk along the chain found: entries that hold together, the newest link, the first fault if any."""

    entries: int
    head: bytes
    fault: str = ""
    seen_head: bool = False

    @property
    def ok(self) -> bool:
        return not self.fault


def link_hash(
    before: bytes, place: int, at: datetime, actor: str, action: str, subject: str, detail: Any, trace_id: str
) -> bytes:
    """The link of one entry; `detail` is JSON."""
    moment = at.astimezone(UTC).isoformat()
    content = [place, moment, actor, action, subject, _plain(detail), trace_id]
    text_form = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(before + text_form.encode()).digest()


def content_digest(document: Any) -> str:
    """SHA-256 of a JSON document in the form that links hash, as hex."""
    text_form = json.dumps(_plain(document), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text_form.encode()).hexdigest()


def verify(session: Session, head: bytes | None = None) -> Verification:
    """Walk the whole chain. `head`: a link that was noted before and must lie on it."""
    link, place, seen = START, 0, head is None or head == START
    for entry in _entries(session):
        if entry.place is None or entry.link is None:
            return Verification(place, link, f"entry {entry.id} has no place in the chain", seen)
        if entry.place != place + 1:
            return Verification(place, link, f"entries {place + 1} to {entry.place - 1} are gone", seen)
        link, place = _link(entry, link), entry.place
        if link != entry.link:
            return Verification(place - 1, link, f"entry {place} ({entry.action}) is not what was written", seen)
        seen = seen or link == head
    fault = "" if seen else "the noted link does not lie on this trail: it was cut or written anew"
    return Verification(place, link, fault, seen)


def _entries(session: Session) -> Iterator[AuditEntry]:
    unplaced = session.scalars(select(AuditEntry).where(AuditEntry.place.is_(None)).limit(1)).first()
    if unplaced is not None:
        yield unplaced
        return
    place = 0
    while True:
        query = select(AuditEntry).where(AuditEntry.place > place).order_by(AuditEntry.place).limit(PAGE)
        page = session.scalars(query).all()
        yield from page
        if len(page) < PAGE:
            return
        place = page[-1].place or 0
        session.expunge_all()


def _link(entry: AuditEntry, before: bytes) -> bytes:
    place = entry.place or 0
    return link_hash(before, place, entry.at, entry.actor, entry.action, entry.subject, entry.detail, entry.trace_id)


@event.listens_for(Session, "before_commit")
def _chain(session: Session) -> None:
    """Give this transaction's entries their places, last of all."""
    if session.in_nested_transaction() or not session.info.pop(MARK, False):
        return
    session.flush()
    session.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": LOCK})
    last = session.execute(
        select(AuditEntry.place, AuditEntry.link)
        .where(AuditEntry.place.is_not(None))
        .order_by(AuditEntry.place.desc())
        .limit(1)
    ).first()
    place, link = (last.place, last.link) if last is not None else (0, START)
    for entry in session.scalars(select(AuditEntry).where(AuditEntry.place.is_(None)).order_by(AuditEntry.id)):
        place += 1
        entry.place = place
        link = _link(entry, link)
        entry.link = link
    session.flush()


def _plain(value: Any) -> Any:  # Any: JSON
    """One spelling for each number: 1.0 and 1 are the same to the database, so they are here."""
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if abs(value) >= 2**53:
        return repr(float(value))
    return int(value) if float(value).is_integer() else value
