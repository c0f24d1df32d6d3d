"""Tokens that were just checked, for routes that whole fleets poll: memory, then one cache read, then the database.

Only for reading what is no secret (the signed state document): a token that was revoked may go on reading it for
`POLL_TOKENS.memory_s`, and for `POLL_TOKENS.cached_s` more where the cache was down when it was revoked. Every other
route asks the database each time.

Invariants: the secret is compared in constant time at every step; the cache holds hashes of secrets, never secrets;
what is held in memory is bounded, the oldest goes first; a cache that does not answer costs speed only.
"""

from __future__ import annotations

import hmac
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from anyio import to_thread
from fastapi import Depends, Request

from services.kit import token_cache
from services.kit.admission import polls_aside
from services.kit.auth import (
    SCOPES,
    Guard,
    Subject,
    authenticate,
    hash_of,
    split_token,
    valid_for_s,
)
from services.kit.database import transaction
from services.kit.limits import POLL_TOKENS


@dataclass(frozen=True)
class Known:
    """A token's subject and the hash of its secret; good until `until` of the monotonic clock."""

    subject: Subject
    secret_hash: bytes
    until: float


class KnownTokens:
    """The tokens that this process has checked."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._known: dict[str, Known] = {}

    def remembered(self, token: str) -> Subject | None:
        """The holder, when memory knows the token; no I/O."""
        token_id, secret = split_token(token)
        known = self._known.get(token_id)
        if known is None or known.until < self._monotonic():
            return None
        return known.subject if hmac.compare_digest(hash_of(secret), known.secret_hash) else None

    def look_up(self, token: str) -> Subject:
        """The holder by the cache, else by the database. Raises Unauthorized."""
        token_id, secret = split_token(token)
        hashed = hash_of(secret)
        subject = _recall(token_id, hashed) if token_id else None
        if subject is None:
            with transaction() as session:
                subject = authenticate(session, token)
                life = valid_for_s(session, subject)
            _remember(subject, hashed, life)
        else:
            life = POLL_TOKENS.memory_s
        self._keep(token_id, Known(subject, hashed, self._monotonic() + min(POLL_TOKENS.memory_s, life)))
        return subject

    def clear(self) -> None:
        """Forget everything that memory holds."""
        with self._lock:
            self._known.clear()

    def _keep(self, token_id: str, known: Known) -> None:
        with self._lock:
            self._known.pop(token_id, None)
            self._known[token_id] = known
            while len(self._known) > POLL_TOKENS.held:
                self._known.pop(next(iter(self._known)))


KNOWN = KnownTokens()


@dataclass(frozen=True)
class PollGuard(Guard):
    """Admits from memory where it can."""

    async def __call__(self, request: Request) -> Subject:
        token = self.token(request)
        subject = KNOWN.remembered(token)
        if subject is None:
            subject = await to_thread.run_sync(KNOWN.look_up, token, limiter=polls_aside())
        self.demand(subject)
        return subject


def polls(scope: str) -> Any:  # Any: as FastAPI's own Depends
    """`Annotated[Subject, polls("updates:read")]`: the scope of a route that whole fleets poll."""
    if scope not in SCOPES:
        raise ValueError(f"unknown scope {scope!r}; known: {sorted(SCOPES)}")
    return Depends(PollGuard(scope))


def _recall(token_id: str, hashed: bytes) -> Subject | None:
    found = token_cache.recall(token_id)
    if found is None or not hmac.compare_digest(bytes.fromhex(found["hash"]), hashed):
        return None
    return Subject(found["kind"], found["id"], frozenset(found["scopes"]), token_id)


def _remember(subject: Subject, hashed: bytes, life_s: float) -> None:
    known = {"hash": hashed.hex(), "kind": subject.kind, "id": subject.id, "scopes": sorted(subject.scopes)}
    token_cache.remember(subject.token_id, known, min(random.uniform(0.5, 1.0) * POLL_TOKENS.cached_s, life_s))
