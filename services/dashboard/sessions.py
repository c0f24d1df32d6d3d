"""A signed-in browser: the cookie holds the session's secret, the identity service knows everything about it.

The secret is itself a token of the platform, so every API that the page calls checks the session anew: what ended,
is revoked or has another role opens nothing, here and there. The page keeps nothing.

Invariants: the cookie is out of reach of scripts and of other sites, and bound to this host where there is TLS; a
form's token follows from the secret and gives nothing of it away.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass, field

from fastapi import Request
from starlette.responses import Response

from contracts.wire.identity import Me
from services.kit.auth import allows

COOKIE = "edgeloop_session"
HOST_COOKIE = f"__Host-{COOKIE}"
BINDING = "edgeloop_sign_in"


@dataclass(frozen=True)
class Session:
    """A signed-in browser. `token` opens the APIs; `me` says for whom."""

    token: str = field(repr=False)
    me: Me

    @property
    def csrf(self) -> str:
        """What every form of this session carries."""
        return base64.urlsafe_b64encode(hashlib.sha256(b"csrf:" + self.token.encode()).digest()).decode()

    @property
    def holder(self) -> str:
        """Who is signed in, to be shown."""
        return f"{self.me.name} ({self.me.role.value})" if self.me.role else self.me.name

    @property
    def personal(self) -> bool:
        """Whether a person's account is behind it; a token alone has no password and makes no tokens."""
        return self.me.role is not None

    def may(self, scope: str) -> bool:
        """Whether the session's holder may do what demands `scope`. The services check it again."""
        return allows(self.me.scopes, scope)

    def accepts(self, csrf: str) -> bool:
        """Whether a form came from a page of this session."""
        return hmac.compare_digest(self.csrf.encode(), csrf.encode())


def read_cookie(request: Request) -> str:
    """The session's secret that the browser sent, or nothing."""
    return request.cookies.get(_cookie(request), "")


def set_cookie(request: Request, answer: Response, token: str) -> None:
    """Give the browser the secret of its new session."""
    secure = _secure(request)
    answer.set_cookie(_cookie(request), token, httponly=True, samesite="strict", secure=secure, path="/")


def drop_cookie(request: Request, answer: Response) -> None:
    """Take the secret out of the browser."""
    answer.delete_cookie(_cookie(request), path="/", secure=_secure(request), httponly=True, samesite="strict")


def set_binding(request: Request, answer: Response, binding: str) -> None:
    """What must come back from the identity provider with the same browser; it comes by way of another site."""
    answer.set_cookie(
        BINDING, binding, max_age=600, httponly=True, samesite="lax", secure=_secure(request), path="/login"
    )


def _cookie(request: Request) -> str:
    return HOST_COOKIE if _secure(request) else COOKIE


def _secure(request: Request) -> bool:
    return request.url.scheme == "https"
