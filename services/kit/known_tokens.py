"""The one memory of tokens that were just checked, for routes that must be fast. Every other route asks the database.

Two guards read it, each with its own patience after a revocation; an expiry is kept to the moment by both.

`requires_fast` (`services.kit.tokens`): believes a check for `TOKENS.remember_s`, however it came into memory.
`polls`: only for reading what is no secret (the signed state document): memory for `POLL_TOKENS.memory_s`, then one
cache read, then the database; so a revoked token may read on for `memory_s`, and for `REVOCATIONS.late_s` more where
the cache was down when it was revoked (`services.kit.revocations`).

Invariants: the secret is compared in constant time at every step; the cache holds hashes of secrets, never secrets;
only valid tokens are remembered, at most `POLL_TOKENS.held` of them, the oldest goes first; use does not prolong the
memory; a cache that does not answer costs speed only.
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

from services.kit import revocations, token_cache
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
    """A token's subject and the hash of its secret.

    `checked` (when the database was asked) and `until` (how long `polls` believes it) are of the monotonic clock,
    `expires_at` is real time, infinite for a token without end.
    """

    subject: Subject
    secret_hash: bytes
    expires_at: float
    checked: float
    until: float

    @property
    def has_expired(self) -> bool:
        return self.expires_at <= time.time()


class KnownTokens:
    """The tokens that this process has checked. `monotonic` is the clock of the memory."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.now = monotonic
        self._lock = threading.Lock()
        self._known: dict[str, Known] = {}

    def __len__(self) -> int:
        return len(self._known)

    def get(self, token_id: str) -> Known | None:
        """What is known of a token, however old; no I/O."""
        return self._known.get(token_id)

    def remembered(self, token: str) -> Subject | None:
        """The holder, when memory knows the token well enough for `polls`; no I/O."""
        token_id, secret = split_token(token)
        known = self._known.get(token_id)
        if known is None or known.until < self.now() or known.has_expired:
            return None
        return known.subject if hmac.compare_digest(hash_of(secret), known.secret_hash) else None

    def look_up(self, token: str) -> Subject:
        """The holder by the cache, else by the database. Raises Unauthorized."""
        token_id, secret = split_token(token)
        hashed = hash_of(secret)
        known = self._recall(token_id, hashed) if token_id else None
        if known is None:
            known = self._ask(token, hashed)
            _remember(known)
        self.keep(known)
        return known.subject

    def keep(self, known: Known) -> None:
        """Remember a token that was found valid."""
        with self._lock:
            self._known.pop(known.subject.token_id, None)
            self._known[known.subject.token_id] = known
            while len(self._known) > POLL_TOKENS.held:
                self._known.pop(next(iter(self._known)))

    def forget(self, token_id: str) -> None:
        """Forget one token."""
        with self._lock:
            self._known.pop(token_id, None)

    def clear(self) -> None:
        """Forget everything that memory holds."""
        with self._lock:
            self._known.clear()

    def known(self, subject: Subject, secret_hash: bytes, expires_at: float, age_s: float = 0.0) -> Known:
        """A token as it goes into memory now; `age_s` ago the database was asked."""
        now = self.now()
        return Known(subject, secret_hash, expires_at, now - age_s, now + POLL_TOKENS.memory_s)

    def _ask(self, token: str, hashed: bytes) -> Known:
        asked = self.now()  # before the query, so that the memory is never longer than stated
        with transaction() as session:
            subject = authenticate(session, token)
            expires_at = time.time() + valid_for_s(session, subject)
        return self.known(subject, hashed, expires_at, self.now() - asked)

    def _recall(self, token_id: str, hashed: bytes) -> Known | None:
        found = token_cache.recall(token_id)
        if found is not None and revocations.sweep_if_late(found.get("swept")):
            found = token_cache.recall(token_id)
        if found is None or not hmac.compare_digest(bytes.fromhex(found["hash"]), hashed):
            return None
        subject = Subject(found["kind"], found["id"], frozenset(found["scopes"]), token_id)
        age_s = max(0.0, time.time() - found["checked"])
        return self.known(subject, hashed, found["expires_at"], age_s)


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


def _remember(known: Known) -> None:
    subject, now = known.subject, time.time()
    kept = {
        "hash": known.secret_hash.hex(),
        "kind": subject.kind,
        "id": subject.id,
        "scopes": sorted(subject.scopes),
        "expires_at": known.expires_at,
        "checked": now,
    }
    token_cache.remember(
        subject.token_id, kept, min(random.uniform(0.5, 1.0) * POLL_TOKENS.cached_s, known.expires_at - now)
    )
