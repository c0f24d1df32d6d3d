"""Who may see and press: the session behind the cookie, and proof that a form came from our own page.

LoginNeeded     no valid session: a page goes to the sign-in, a fragment answers 401
IdentityDown    nobody can say whose session it is: 503
PasswordNeeded  signed in with a one-time password: the own page, where another one is chosen
ForeignForm     a form without our CSRF token, or sent from another site: 403, nothing happens
"""

import hmac
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Form, Request

from contracts.wire.identity import Me
from services.dashboard.platform import Missing, Platform
from services.dashboard.sessions import Session, read_cookie
from services.kit.settings import settings

LIVE = "/fragments/"
OPEN = frozenset({"/console/account", "/console/account/password", "/logout"})
"""What a session may see that began with a one-time password."""


class LoginNeeded(Exception):
    """There is no session, or it is over."""


class IdentityDown(Exception):
    """The identity service did not answer; `missing` says why."""

    def __init__(self, missing: Missing) -> None:
        super().__init__(missing.reason)
        self.missing = missing


class PasswordNeeded(Exception):
    """The session may do nothing but choose a password."""


class ForeignForm(Exception):
    """The form was not sent from a page of this session."""


async def current_session(request: Request) -> Session:
    """The session of the request; raises LoginNeeded, IdentityDown.

    What a page asks for by itself does not count as use, so a page that is only left open becomes idle.
    """
    token = read_cookie(request)
    if not token:
        raise LoginNeeded
    used = not request.url.path.startswith(LIVE)
    async with Platform(settings().base_url, token) as platform:
        found = await platform.get(Me, "/identity/v1/me", use=str(used).lower())
    if not isinstance(found, Missing):
        if found.value.session is None:
            raise LoginNeeded  # a bare token is no session; it has no idle limit
        if found.value.must_change and request.url.path not in OPEN:
            raise PasswordNeeded
        return Session(token, found.value)
    if found.status in (401, 403):
        raise LoginNeeded
    raise IdentityDown(found)


Operator = Annotated[Session, Depends(current_session)]


def same_origin(request: Request) -> None:
    """Raise ForeignForm unless the browser says that the form comes from this site."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is not None and site != "same-origin":
        raise ForeignForm
    if origin is None or not hmac.compare_digest(urlsplit(origin).netloc, request.headers.get("host", "")):
        raise ForeignForm


def own_form(request: Request, operator: Operator, csrf: Annotated[str, Form(max_length=100)] = "") -> Session:
    """The session, after the form proved to be ours."""
    same_origin(request)
    if not operator.accepts(csrf):
        raise ForeignForm
    return operator


OwnForm = Annotated[Session, Depends(own_form)]
