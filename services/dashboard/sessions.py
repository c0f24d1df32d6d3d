"""Server-side sessions: the browser holds a random number, Redis holds everything else.

Invariants: the session id is kept as a hash only; the operator's token is encrypted with a key that only the cookie
can derive, so a copy of Redis opens nothing; log-out deletes the entry, so an old cookie is worthless; a session ends
when idle and, at the latest, after the absolute limit.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from services.dashboard.limits import LIMITS
from services.kit.streams import connection

COOKIE = "edgeloop_session"
NONCE_BYTES = 12


@dataclass(frozen=True)
class Session:
    """A logged-in browser. `csrf` is what every form must carry; `token` opens the APIs."""

    id: str
    token: str
    csrf: str

    @property
    def holder(self) -> str:
        """The public part of the token, to show who is logged in."""
        return "_".join(self.token.split("_")[:2])

    def accepts(self, csrf: str) -> bool:
        """Whether a form came from a page of this session."""
        return hmac.compare_digest(self.csrf.encode(), csrf.encode())


def open_session(token: str) -> Session:
    """Start a session for a token that was tried and works."""
    session = Session(secrets.token_urlsafe(32), token, secrets.token_urlsafe(32))
    nonce = secrets.token_bytes(NONCE_BYTES)
    sealed = nonce + AESGCM(_key(session.id)).encrypt(nonce, token.encode(), None)
    name = _name(session.id)
    fields = {"sealed": sealed, "csrf": session.csrf, "opened": str(time.time())}
    with connection().pipeline() as pipe:
        pipe.hset(name, mapping=fields)  # type: ignore[arg-type]  # redis-py's mapping type is invariant
        pipe.expire(name, LIMITS.session_idle_s)
        pipe.execute()
    return session


def find_session(session_id: str) -> Session | None:
    """The session of a cookie, kept alive by being used; None when it does not exist or is over."""
    if not session_id:
        return None
    name = _name(session_id)
    raw: dict[bytes, bytes] = connection().hgetall(name)  # type: ignore[assignment]  # sync client
    if not raw or time.time() - float(raw[b"opened"]) > LIMITS.session_longest_s:
        return None
    connection().expire(name, LIMITS.session_idle_s)
    sealed = raw[b"sealed"]
    try:
        token = AESGCM(_key(session_id)).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], None)
    except InvalidTag:
        return None
    return Session(session_id, token.decode(), raw[b"csrf"].decode())


def close_session(session_id: str) -> None:
    """End a session for good."""
    connection().delete(_name(session_id))


def _name(session_id: str) -> str:
    return f"dashboard:session:{hashlib.sha256(b'name' + session_id.encode()).hexdigest()}"


def _key(session_id: str) -> bytes:
    return hashlib.sha256(b"key" + session_id.encode()).digest()
