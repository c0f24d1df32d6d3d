"""API tokens that people make for scripts: never more than the maker may do, never for ever, revocable.

Only a signed-in person makes one, so a token that leaked cannot make the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from contracts.wire.identity import ApiTokenAnswer, ApiTokenRecord, ApiTokenRequest
from services.identity import sessions
from services.identity.errors import TooManyTokens, UnknownToken
from services.identity.limits import TOKEN
from services.identity.models import ApiTokenRow
from services.kit.audit import record
from services.kit.auth import Subject, issue_token, revoke_tokens, split_token
from services.kit.models import Token
from services.kit.problems import Forbidden

DAY_S = 86_400


def make(session: Session, subject: Subject, request: ApiTokenRequest) -> ApiTokenAnswer:
    """A new token in clear, this once. Raises NoSession, Forbidden, TooManyTokens."""
    account = sessions.personal(session, subject).account or ""
    wanted = frozenset(request.scopes) or subject.scopes
    if not wanted:
        raise Forbidden("you may do nothing yet, so no token of yours may; choose a password of your own first")
    beyond = sorted(wanted - subject.scopes)
    if beyond:
        raise Forbidden(f"you may not do {', '.join(beyond)[:200]} yourself, so no token of yours may; leave it out")
    if len(valid_of(session, account)) >= TOKEN.each:
        raise TooManyTokens(f"{account} has {TOKEN.each} tokens; revoke one that is no longer used")
    token = issue_token(session, "operator", account, wanted, request.days * DAY_S)
    token_id, _ = split_token(token)
    session.add(ApiTokenRow(token_id=token_id, account=account, label=request.label))
    session.flush()
    detail = {"label": request.label, "scopes": sorted(wanted), "days": request.days}
    record(session, subject, "api-token.created", f"token:{token_id}", detail)
    made = view(session.get_one(Token, token_id), request.label)
    return ApiTokenAnswer(**made.model_dump(), token=token)


def revoke(session: Session, subject: Subject, token_id: str) -> None:
    """Revoke a token of the caller's own, and the sessions begun with it. Raises UnknownToken, NoSession."""
    revoke_of(session, subject, sessions.personal(session, subject).account or "", token_id, {})


def revoke_of(session: Session, subject: Subject, account: str, token_id: str, detail: dict[str, str]) -> None:
    """Revoke a token of `account` and the sessions begun with it; `detail` goes into the trail. Raises UnknownToken."""
    row = session.get(ApiTokenRow, token_id)
    if row is None or row.account != account or not revoke_tokens(session, [token_id]):
        raise UnknownToken(f"{account} has no valid token {token_id[:16]!r}")
    sessions.end_children(session, [token_id])
    record(session, subject, "api-token.revoked", f"token:{token_id}", {"label": row.label, **detail})


def revoke_beyond(session: Session, account: str, scopes: frozenset[str]) -> int:
    """Revoke the account's tokens that may do more than `scopes`; returns how many."""
    too_wide = [token.id for token, _ in valid_of(session, account) if not scopes.issuperset(token.scopes)]
    sessions.end_children(session, too_wide)
    return revoke_tokens(session, too_wide)


def valid_of(session: Session, account: str) -> Sequence[tuple[Token, str]]:
    """The valid tokens of an account with their labels, newest first."""
    valid = (Token.revoked_at.is_(None), Token.expires_at > datetime.now(UTC))
    query = select(Token, ApiTokenRow.label).join(ApiTokenRow, ApiTokenRow.token_id == Token.id)
    found = session.execute(query.where(ApiTokenRow.account == account, *valid).order_by(Token.created_at.desc()))
    return [(token, label) for token, label in found]


def view(token: Token, label: str) -> ApiTokenRecord:
    """A token without its secret."""
    assert token.expires_at is not None, "every API token expires"
    return ApiTokenRecord(
        id=token.id,
        label=label,
        scopes=tuple(token.scopes),
        created=token.created_at,
        expires=token.expires_at,
        revoked=token.revoked_at,
    )
