"""Who asks, and what they may do: bearer tokens with scopes.

A token reads `el_<id>_<secret>`. The database keeps the SHA-256 of the secret (256 random bits, so no slow hash is
needed); comparison takes constant time, also for an unknown id. Every route states one scope:

    def route(subject: Annotated[Subject, requires("drift:read")]) -> ...

`services.kit.routes` finds it again, and a test fails any route that has none and is not on the public list.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args

from fastapi import Depends, Request
from sqlalchemy import ColumnElement, event, func, update
from sqlalchemy.orm import Session

from services.kit import token_cache
from services.kit.database import SessionDep
from services.kit.models import Token
from services.kit.problems import Forbidden, Unauthorized

Kind = Literal["device", "operator", "service"]

DEVICE_SCOPES = frozenset({"telemetry:write", "updates:read", "feedback:write"})
STAFF_SCOPES = frozenset(
    f"{resource}:{verb}"
    for resource in ("telemetry", "curation", "drift", "builds", "releases", "audit")
    for verb in ("read", "write")
)
IDENTITY_SCOPES = frozenset({"identity:read", "identity:write"})
HALT = "releases:halt"
IMPLIED = {HALT: "releases:write"}
"""Scope -> the wider one that holds it too: whoever may release may also stop, with an older token as well."""
OWN = "own"
"""Demanded by routes about the caller's own sessions and tokens: every valid operator token has it, no other has."""

SCOPES = DEVICE_SCOPES | STAFF_SCOPES | IDENTITY_SCOPES | {HALT}
DEFAULT_SCOPES: dict[str, frozenset[str]] = {
    "device": DEVICE_SCOPES,
    "operator": STAFF_SCOPES | IDENTITY_SCOPES,
    "service": STAFF_SCOPES,
}
NO_HASH = bytes(32)
REFUSED = "the token is missing, unknown, expired or revoked; send `Authorization: Bearer <token>`"


def allows(scopes: Collection[str], wanted: str) -> bool:
    """Whether these scopes open what demands `wanted`."""
    return wanted in scopes or IMPLIED.get(wanted, wanted) in scopes


@dataclass(frozen=True)
class Subject:
    """The holder of a valid token. `token_id` tells two tokens of one holder apart."""

    kind: Kind
    id: str
    scopes: frozenset[str]
    token_id: str

    def may(self, scope: str) -> bool:
        """Whether the token opens what demands `scope`."""
        return allows(self.scopes, scope)

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"


def issue_token(
    session: Session,
    kind: Kind,
    subject_id: str,
    scopes: Iterable[str] | None = None,
    ttl_s: float | None = None,
) -> str:
    """Make a token and return it, this once, in clear. `scopes=None` gives the usual ones of `kind`.

    Raises ValueError for an unknown kind or scope (a programming error, not a client's).
    """
    wanted = DEFAULT_SCOPES[kind] if scopes is None else frozenset(scopes)
    if kind not in get_args(Kind) or not wanted <= SCOPES:
        raise ValueError(f"token for {kind!r} with unknown scopes {sorted(wanted - SCOPES)}; known: {sorted(SCOPES)}")
    token_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    expires = None if ttl_s is None else datetime.now(UTC) + timedelta(seconds=ttl_s)
    row = Token(id=token_id, secret_hash=hash_of(secret), kind=kind, subject_id=subject_id, scopes=sorted(wanted))
    row.expires_at = expires
    session.add(row)
    session.flush()
    return f"el_{token_id}_{secret}"


def revoke(session: Session, kind: Kind, subject_id: str) -> int:
    """Revoke every token of this holder; returns how many were still valid."""
    return _revoke(session, Token.kind == kind, Token.subject_id == subject_id)


def revoke_tokens(session: Session, token_ids: Collection[str]) -> int:
    """Revoke these tokens; returns how many were still valid."""
    return _revoke(session, Token.id.in_(token_ids)) if token_ids else 0


def authenticate(session: Session, token: str) -> Subject:
    """The holder of `token`; raises Unauthorized without saying which check failed."""
    token_id, secret = split_token(token)
    row = session.get(Token, token_id) if token_id else None
    right = hmac.compare_digest(hash_of(secret), row.secret_hash if row else NO_HASH)
    if row is None or not right or row.revoked_at is not None:
        raise Unauthorized(REFUSED)
    if row.expires_at is not None and row.expires_at <= datetime.now(UTC):
        raise Unauthorized(REFUSED)
    return subject_of(row)


def _revoke(session: Session, *which: ColumnElement[bool]) -> int:
    statement = update(Token).where(*which, Token.revoked_at.is_(None)).values(revoked_at=func.now())
    revoked = session.scalars(statement.returning(Token.id)).all()
    event.listen(session, "after_commit", lambda _session: token_cache.forget(revoked), once=True)
    return len(revoked)


def subject_of(row: Token) -> Subject:
    """The holder that a row of the table of tokens names."""
    kind: Any = row.kind  # Any: the database holds only the three kinds, issue_token saw to it
    return Subject(kind=kind, id=row.subject_id, scopes=frozenset(row.scopes), token_id=row.id)


@dataclass(frozen=True)
class Guard:
    """Admits a subject with `scope`. With `cookie`, a browser may send the token there instead."""

    scope: str
    cookie: str | None = None

    def demand(self, subject: Subject) -> None:
        """Raise Forbidden when the subject lacks the scope."""
        if self.scope == OWN:
            if subject.kind != "operator":
                raise Forbidden("only an operator has sessions and tokens of their own; use an operator's token")
        elif not subject.may(self.scope):
            raise Forbidden(f"this needs the scope {self.scope}; ask an operator for a token that has it")

    def token(self, request: Request) -> str:
        """The token that came with the request, or nothing."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return token.strip()
        return request.cookies.get(self.cookie, "") if self.cookie else ""


@dataclass(frozen=True)
class ScopeGuard(Guard):
    """Dependency that asks the database for every request."""

    def __call__(self, request: Request, session: SessionDep) -> Subject:
        subject = authenticate(session, self.token(request))
        self.demand(subject)
        return subject


def requires(scope: str, *, cookie: str | None = None) -> Any:  # Any: as FastAPI's own Depends
    """`Annotated[Subject, requires("telemetry:write")]`: the route's scope, giving the subject."""
    if scope not in SCOPES | {OWN}:
        raise ValueError(f"unknown scope {scope!r}; known: {sorted(SCOPES)}")
    return Depends(ScopeGuard(scope, cookie))


def valid_for_s(session: Session, subject: Subject) -> float:
    """Seconds until the token expires; infinite for one that does not. The token was just read in this session."""
    row = session.get_one(Token, subject.token_id)
    return math.inf if row.expires_at is None else (row.expires_at - datetime.now(UTC)).total_seconds()


def split_token(token: str) -> tuple[str, str]:
    """Id and secret of a token; empty where it is not one of ours."""
    prefix, _, rest = token.partition("_")
    token_id, _, secret = rest.partition("_")
    return (token_id, secret) if prefix == "el" and len(token) <= 256 else ("", "")


def hash_of(secret: str) -> bytes:
    """What the database keeps of a secret."""
    return hashlib.sha256(secret.encode()).digest()
