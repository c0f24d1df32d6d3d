"""Who may see and press: the session behind the cookie, and proof that a form came from our own page.

LoginNeeded     no valid session: a page goes to the login, a fragment answers 401
ForeignForm     a form without our CSRF token, or sent from another site: 403, nothing happens
"""

import hmac
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Form, Request
from starlette.concurrency import run_in_threadpool

from services.dashboard.sessions import COOKIE, Session, find_session


class LoginNeeded(Exception):
    """There is no session, or it is over."""


class ForeignForm(Exception):
    """The form was not sent from a page of this session."""


async def current_session(request: Request) -> Session:
    """The session of the request; raises LoginNeeded."""
    session = await run_in_threadpool(find_session, request.cookies.get(COOKIE, ""))
    if session is None:
        raise LoginNeeded
    return session


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
