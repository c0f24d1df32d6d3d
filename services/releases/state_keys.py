"""How one key of the state document follows another, and how one is ended.

The table says what holds; the key store has the private keys. A rotation makes the next key and lets both sign, so
agents that know one key go on through the overlap; the list of keys in the update repository tells the others. At
the overlap's end, or when somebody revokes it, the old key leaves the list and its file is destroyed.

Invariants: a key that ended in the table signs nothing, whatever files are there; the list is published before the
first document that needs it; one key is left always; a step that was cut short is finished by `settle`; the list's
serial only grows, also after the database was restored from a backup (it is a time in seconds).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import structlog
from sqlalchemy import event, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from contracts.state import public_text
from contracts.state_keys import MAX_ENDED, STATE_KEY_TARGET, EndedKey, StateKey, StateKeyList, decode_list, encode_list
from contracts.wire.keys import StateKeyRecord, StateKeys
from services.kit.audit import record
from services.kit.auth import Subject
from services.kit.problems import NotFound
from services.releases import service
from services.releases.errors import WrongState
from services.releases.keys import STATE
from services.releases.models import StateKeyRow
from services.releases.state_document import lock_control, publish
from services.releases.state_signers import verifiers
from services.releases.tuf_repository import UpdateRepository

log = structlog.get_logger(__name__)
ROLE = f"role:{STATE}"


def status(session: Session) -> StateKeys:
    """Every key, oldest first."""
    rows, signing = _rows(session), {public_text(key) for key in verifiers(session)}
    records = tuple(
        StateKeyRecord(
            public=row.public,
            created=row.created_at,
            until=row.until_at,
            ended=row.ended_at,
            last_epoch=row.last_epoch,
            signs=row.public in signing,
        )
        for row in rows
    )
    return StateKeys(serial=_published(service.readable_repository(session)), keys=records)


def rotate(session: Session, subject: Subject, overlap_s: int, reason: str) -> None:
    """Make the next key; both sign for `overlap_s`, 0 ends the old one at once. Raises WrongState, KeyUnusable."""
    repository, live = _begin(session)
    if len(live) > 1:
        raise WrongState(f"a rotation is going on; end it first: revoke the state key {live[0].public}")
    following = service.keys().next_state_key(make=True)
    assert following is not None
    now, public = _stamp(live), public_text(following.public_key())
    live[0].until_at = now + timedelta(seconds=overlap_s)
    session.add(StateKeyRow(public=public, created_at=now))
    session.flush()
    detail = {"reason": reason, "overlap_s": overlap_s, "public": public}
    record(session, subject, "signing-key.rotated", ROLE, detail)
    _publish(session, repository, live if overlap_s == 0 else ())


def revoke(session: Session, subject: Subject, begins: str, reason: str) -> None:
    """End a key now. Raises NotFound, WrongState (it is the only one, or ended already), KeyUnusable."""
    repository, live = _begin(session)
    named = [row for row in _rows(session) if row.public.startswith(begins)]
    if len(named) != 1:
        raise NotFound(f"{len(named)} state keys begin with {begins}; list them: edgeloop release keys show")
    (row,) = named
    if row.ended_at is not None:
        raise WrongState(f"the state key {row.public} has ended already")
    if len(live) == 1:
        raise WrongState(f"the state key {row.public} is the only one; rotate first")
    for other in live:
        other.until_at = None
    record(session, subject, "signing-key.revoked", ROLE, {"reason": reason, "public": row.public})
    _publish(session, repository, named)


def settle(session: Session) -> None:
    """End keys whose overlap is over, and finish what was cut short. For the worker's clock."""
    repository, live = _begin(session)
    now = datetime.now(UTC)
    over = [row for row in live if row.until_at is not None and row.until_at <= now]
    if over and len(over) < len(live):
        _publish(session, repository, over)
        log.info("state_key_overlap_ended", keys=[row.public for row in over])
        return
    _tidy(*_sides(_rows(session)))


def _begin(session: Session) -> tuple[UpdateRepository, list[StateKeyRow]]:
    """The repository and the fleet-wide row, both locked in the order of everybody else, and the keys that live."""
    repository = service.writable_repository(session)
    lock_control(session)
    return repository, [row for row in _rows(session) if row.ended_at is None]


def _publish(session: Session, repository: UpdateRepository, ending: Sequence[StateKeyRow]) -> None:
    """End these keys, publish the list, then a document by the keys that sign now; files follow the commit."""
    stamp, epoch = _stamp(_rows(session)), lock_control(session).epoch
    for row in ending:
        row.ended_at, row.last_epoch = stamp, epoch
    session.flush()
    rows = _rows(session)
    found = _list(rows, _published(repository) + 1)
    repository.add_target(STATE_KEY_TARGET, encode_list(found), {"kind": "state-key"})
    publish(session)
    sides = _sides(rows)
    event.listen(session, "after_commit", lambda _session: _tidy(*sides), once=True)


def _rows(session: Session) -> list[StateKeyRow]:
    """Every key, oldest first. The present one is entered when it is first looked for."""
    query = select(StateKeyRow).order_by(StateKeyRow.created_at)
    rows = list(session.scalars(query))
    present = public_text(service.keys().state_key().public_key())
    if present in {row.public for row in rows}:
        return rows
    entry = insert(StateKeyRow).values(public=present, created_at=_stamp(rows)).on_conflict_do_nothing()
    session.execute(entry)
    return list(session.scalars(query))


def _stamp(rows: Sequence[StateKeyRow]) -> datetime:
    """Now, and a second later than everything that is noted, also where the clock went back: keys have an order."""
    noted = [moment for row in rows for moment in (row.created_at, row.ended_at) if moment is not None]
    return max([datetime.now(UTC), *(moment + timedelta(seconds=1) for moment in noted)])


def _published(repository: UpdateRepository) -> int:
    """The serial that devices have seen."""
    return decode_list(repository.read_target(STATE_KEY_TARGET) or b"").serial


def _list(rows: Sequence[StateKeyRow], least: int) -> StateKeyList:
    """The list; its serial is a time in seconds, so a restored database does not fall behind, and `least` at least."""
    live, ended = [row for row in rows if row.ended_at is None], [row for row in rows if row.ended_at is not None]
    return StateKeyList(
        serial=max(least, int(_stamp(rows).timestamp())),
        keys=tuple(
            StateKey(public=row.public, until=None if row.until_at is None else int(row.until_at.timestamp()))
            for row in live
        ),
        ended=tuple(EndedKey(public=row.public, last_epoch=row.last_epoch or 0) for row in ended[-MAX_ENDED:]),
    )


def _sides(rows: Sequence[StateKeyRow]) -> tuple[frozenset[str], frozenset[str]]:
    """Public keys that live, and those that ended."""
    live = frozenset(row.public for row in rows if row.ended_at is None)
    return live, frozenset(row.public for row in rows) - live


def _tidy(live: frozenset[str], ended: frozenset[str]) -> None:
    """Let the files follow the table: a key that ended is destroyed, the one after it takes its place."""
    store = service.keys()
    present, following = store.state_key(), store.next_state_key()
    after = "" if following is None else public_text(following.public_key())
    if after in ended:
        store.drop_next_state_key()
    elif after in live and public_text(present.public_key()) in ended:
        store.promote(STATE)
