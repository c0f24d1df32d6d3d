"""Checks tokens for routes that must be fast: look-ups of concurrent requests share a query, and a short memory.

`services.kit.auth` asks the database for every request. Here a token that was found valid is believed for
`TOKENS.remember_s` seconds, so **a revoked token may be accepted that much longer, never more**; an expiry is kept to
the moment. The memory is the process's one, `services.kit.known_tokens`. A wrong secret is never remembered: it is
compared with the kept hash, in constant time, and refused.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Depends, FastAPI, Request
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from services.kit.auth import NO_HASH, REFUSED, SCOPES, Guard, Subject, hash_of, split_token, subject_of
from services.kit.batching import Batcher, BatchLimits
from services.kit.database import transaction
from services.kit.known_tokens import KNOWN, Known, KnownTokens
from services.kit.limits import TOKENS
from services.kit.models import Token
from services.kit.problems import Unauthorized, dependency_problem


class TokenDesk:
    """Checks the tokens of one process; `memory` is what it may believe."""

    def __init__(self, memory: KnownTokens) -> None:
        self._memory = memory
        self._looks: Batcher[str, Token | None] = Batcher(
            "tokens", lambda ids: look_up(ids), BatchLimits(TOKENS.batch, TOKENS.at_once, TOKENS.waiting)
        )

    async def subject(self, token: str) -> Subject:
        """The holder of `token`; raises Unauthorized without saying which check failed."""
        token_id, secret = split_token(token)
        secret_hash = hash_of(secret)
        known = self._memory.get(token_id)
        if known is None or known.checked + TOKENS.remember_s <= self._memory.now():
            known = await self._look(token_id)
        if not hmac.compare_digest(secret_hash, known.secret_hash if known else NO_HASH) or known is None:
            raise Unauthorized(REFUSED)
        if known.has_expired:
            self._memory.forget(token_id)
            raise Unauthorized(REFUSED)
        return known.subject

    async def _look(self, token_id: str) -> Known | None:
        self._memory.forget(token_id)
        asked = self._memory.now()  # before the query, so that the memory is never longer than stated
        row = await self._looks.submit(token_id) if token_id else None
        if row is None or row.revoked_at is not None:
            return None
        expires = row.expires_at.timestamp() if row.expires_at is not None else math.inf
        known = self._memory.known(subject_of(row), row.secret_hash, expires, self._memory.now() - asked)
        if not known.has_expired:
            self._memory.keep(known)
        return known


def look_up(ids: Sequence[str]) -> Sequence[Token | Exception | None]:
    """The rows of these token ids, in order; a problem for each when the database is down."""
    try:
        with transaction() as session:
            rows = session.scalars(select(Token).where(Token.id.in_(set(ids)))).all()
    except SQLAlchemyError as error:
        return [dependency_problem(error) for _ in ids]
    found = {row.id: row for row in rows}
    return [found.get(token_id) for token_id in ids]


@dataclass(frozen=True)
class DeskGuard(Guard):
    """Dependency like `ScopeGuard`, by way of the process's desk. It checks a request once."""

    async def __call__(self, request: Request) -> Subject:
        known: Subject | None = getattr(request.state, "subject", None)
        subject = known or await desk_of(request.app).subject(self.token(request))
        self.demand(subject)
        request.state.subject = subject
        return subject


def desk_of(app: FastAPI) -> TokenDesk:
    """The application's desk, made when it is first asked for."""
    desk: TokenDesk | None = getattr(app.state, "token_desk", None)
    if desk is None:
        desk = app.state.token_desk = TokenDesk(KNOWN)
    return desk


def requires_fast(scope: str) -> Any:  # Any: as FastAPI's own Depends
    """`Annotated[Subject, requires_fast("telemetry:write")]`: like `requires`, with the short memory."""
    if scope not in SCOPES:
        raise ValueError(f"unknown scope {scope!r}; known: {sorted(SCOPES)}")
    return Depends(DeskGuard(scope))
