"""Sessions: a token of the platform with an idle limit, an absolute limit, and an owner who can see and end it.

A session's secret is 256 random bits, kept as a hash in `kit.tokens`; every service checks it there, so log-out and
revocation hold for all of them at once. The token's expiry is the idle limit; noting the use moves it on, never past
the absolute limit.

Invariants: signing in always makes a new secret; an ended session's secret opens nothing again; a session never
makes another one that lasts longer than itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from contracts.wire.identity import Role, SessionAnswer, SessionRecord
from services.identity.errors import NoSession, UnknownSession
from services.identity.limits import SESSION
from services.identity.models import AccountRow, SessionRow
from services.identity.roles import SCOPES_OF
from services.kit.audit import record
from services.kit.auth import Subject, issue_token, revoke_tokens, split_token
from services.kit.models import Token

PERSONAL = frozenset({"password", "provider"})


@dataclass(frozen=True)
class Origin:
    """How somebody came in: `password`, `provider` or `token`, and with which browser."""

    method: str
    browser: str = ""


def start_for_account(session: Session, account: AccountRow, origin: Origin) -> SessionAnswer:
    """A new session of a person, with what the role allows. The account's oldest go when there are too many.

    One that began with a one-time password holds no scope: it can choose a password and nothing else.
    """
    bare = account.must_change and origin.method == "password"
    row = SessionRow(account=account.name, holder=account.name, method=origin.method, browser=origin.browser)
    scopes = frozenset[str]() if bare else SCOPES_OF[Role(account.role)]
    made = _start(session, row, scopes, _now() + timedelta(seconds=SESSION.longest_s))
    open_ones = of_holder(session, account.name)
    _end(session, [old.token_id for old in open_ones[SESSION.each :]])
    return made.model_copy(update={"must_change": bare})


def start_for_token(session: Session, subject: Subject, browser: str) -> SessionAnswer:
    """A session for the holder of an access token; it ends with that token at the latest. Raises NoSession."""
    if session.get(SessionRow, subject.token_id) is not None:
        raise NoSession("a session cannot begin another one; sign in again")
    parent = session.get_one(Token, subject.token_id)
    latest = _now() + timedelta(seconds=SESSION.longest_s)
    ends = min(latest, parent.expires_at) if parent.expires_at is not None else latest
    row = SessionRow(holder=subject.id, parent=subject.token_id, method="token", browser=browser)
    made = _start(session, row, subject.scopes, ends)
    siblings = select(SessionRow.token_id).where(SessionRow.parent == subject.token_id)
    newest_first = session.scalars(siblings.order_by(SessionRow.started_at.desc())).all()
    _end(session, newest_first[SESSION.each :])
    return made


def with_account(session: Session, subject: Subject) -> tuple[SessionRow | None, AccountRow | None]:
    """The caller's session and whose account it is of, each None where there is none. Every page asks: one query."""
    query = select(SessionRow, AccountRow).outerjoin(AccountRow, AccountRow.name == SessionRow.account)
    found = session.execute(query.where(SessionRow.token_id == subject.token_id)).first()
    return (None, None) if found is None else (found[0], found[1])


def note_use(session: Session, row: SessionRow) -> None:
    """Move the idle limit of a session on."""
    now = _now()
    if now - row.seen_at >= timedelta(seconds=SESSION.note_s):
        row.seen_at = now
        until = min(row.ends_at, now + timedelta(seconds=SESSION.idle_s))
        session.execute(update(Token).where(Token.id == row.token_id).values(expires_at=until))


def personal(session: Session, subject: Subject) -> SessionRow:
    """The caller's own session, begun with a password or at the provider. Raises NoSession."""
    row = session.get(SessionRow, subject.token_id)
    if row is None or row.account is None or row.method not in PERSONAL:
        raise NoSession("sign in with your account for this; a token alone may not do it")
    return row


def of_holder(session: Session, holder: str) -> Sequence[SessionRow]:
    """The open sessions of a holder, newest first."""
    now = _now()
    valid = (Token.revoked_at.is_(None), Token.expires_at > now, SessionRow.ends_at > now)
    query = select(SessionRow).join(Token, Token.id == SessionRow.token_id).where(SessionRow.holder == holder, *valid)
    return session.scalars(query.order_by(SessionRow.started_at.desc(), SessionRow.token_id)).all()


def end_one(session: Session, subject: Subject, session_id: str) -> None:
    """End a session of the caller's own, from within one. Raises NoSession; UnknownSession, also for another's."""
    if session.get(SessionRow, subject.token_id) is None:
        raise NoSession("a token alone ends no session; sign in for this")
    row = session.get(SessionRow, session_id)
    if row is None or row.holder != subject.id or not _end(session, [session_id]):
        raise UnknownSession(f"you have no open session {session_id[:16]!r}")
    record(session, subject, "session.ended", f"session:{session_id}")


def end_all(session: Session, account: str) -> int:
    """End every session of an account; returns how many there were."""
    return _end(session, [row.token_id for row in of_holder(session, account)])


def end_children(session: Session, token_ids: Iterable[str]) -> None:
    """End the sessions that were begun with these tokens."""
    children = select(SessionRow.token_id).where(SessionRow.parent.in_(list(token_ids)))
    _end(session, session.scalars(children).all())


def view(row: SessionRow, subject: Subject) -> SessionRecord:
    """A session as its owner sees it."""
    return SessionRecord(
        id=row.token_id,
        method=row.method,
        browser=row.browser,
        started=row.started_at,
        seen=row.seen_at,
        ends=row.ends_at,
        current=row.token_id == subject.token_id,
    )


def _start(session: Session, row: SessionRow, scopes: Iterable[str], ends: datetime) -> SessionAnswer:
    _sweep(session)
    left = (ends - _now()).total_seconds()
    token = issue_token(session, "operator", row.holder, scopes, min(SESSION.idle_s, left))
    row.token_id, _ = split_token(token)
    row.started_at = row.seen_at = _now()
    row.ends_at = ends
    session.add(row)
    session.flush()
    record(session, f"operator:{row.holder}", "session.started", f"session:{row.token_id}", {"method": row.method})
    granted = tuple(sorted(scopes))
    return SessionAnswer(token=token, name=row.holder, scopes=granted, idle_s=SESSION.idle_s, ends=ends)


def _end(session: Session, token_ids: Sequence[str]) -> int:
    return revoke_tokens(session, token_ids)


def _sweep(session: Session) -> None:
    """Sessions that ended long ago leave, with their secrets' rows."""
    old = select(SessionRow.token_id).where(SessionRow.ends_at < _now() - timedelta(seconds=SESSION.kept_s)).limit(200)
    gone = session.scalars(old.with_for_update(skip_locked=True)).all()
    if gone:
        session.execute(delete(SessionRow).where(SessionRow.token_id.in_(gone)))
        session.execute(delete(Token).where(Token.id.in_(gone)))


def _now() -> datetime:
    return datetime.now(UTC)
