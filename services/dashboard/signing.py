"""Signing in and out: name and password, the identity provider, or a token that somebody has already."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from pydantic import BaseModel
from starlette.responses import RedirectResponse, Response

from contracts.wire.identity import (
    ProviderRedirect,
    ProviderStart,
    SessionAnswer,
    SessionFromToken,
    SignInMethods,
)
from services.dashboard.guard import OwnForm, same_origin
from services.dashboard.languages import _
from services.dashboard.limits import LIMITS
from services.dashboard.pages import HEADERS, page
from services.dashboard.platform import Loaded, Missing, Platform
from services.dashboard.sessions import BINDING, drop_cookie, read_cookie, set_binding, set_cookie
from services.kit.settings import settings

router = APIRouter()

Next = Annotated[str, Form(max_length=200)]


@router.get("/login")
async def show_login(next: Annotated[str, Query(max_length=200)] = "/") -> Response:
    """The sign-in form."""
    return await _form(local(next))


@router.post("/login")
async def login(
    request: Request,
    name: Annotated[str, Form(max_length=64)] = "",
    password: Annotated[str, Form(max_length=LIMITS.password_chars)] = "",
    token: Annotated[str, Form(max_length=LIMITS.token_chars)] = "",
    next: Next = "/",
) -> Response:
    """A new session for name and password, or for a token. An old session of this browser ends."""
    same_origin(request)
    browser = request.headers.get("user-agent", "")[:300]
    if token.strip():
        made = await _ask("/identity/v1/token-sessions", SessionFromToken(browser=browser), token.strip())
    else:
        body = _Secrets(name=name, password=password, browser=browser)
        made = await _ask("/identity/v1/sessions", body)
    if isinstance(made, Missing):
        return await _form(local(next), _why(made, bool(token.strip())), made.status, name)
    await _leave(read_cookie(request))
    answer = RedirectResponse(local(next), status_code=303, headers=HEADERS)
    set_cookie(request, answer, made.value.token)
    return answer


@router.get("/login/provider")
async def go_to_provider(request: Request) -> Response:
    """Begin to sign in at the identity provider."""
    async with Platform(settings().base_url, "") as platform:
        begun = await platform.create(ProviderRedirect, "/identity/v1/provider-sign-ins", ProviderStart())
    if isinstance(begun, Missing):
        return await _form("/", _why(begun, False), begun.status)
    answer = RedirectResponse(begun.value.url, status_code=303, headers=HEADERS)
    set_binding(request, answer, begun.value.binding)
    return answer


@router.get("/login/provider/return")
async def return_from_provider(
    request: Request,
    state: Annotated[str, Query(max_length=200)] = "",
    code: Annotated[str, Query(max_length=4_000)] = "",
    iss: Annotated[str, Query(max_length=400)] = "",
) -> Response:
    """Back from the identity provider. The page that follows is ours again, so the strict cookie goes with it."""
    binding = request.cookies.get(BINDING, "")
    if not state or not code or not binding or len(binding) > 200:
        return await _form("/", _("The identity provider did not let you in, or this browser was not the one."), 401)
    browser = request.headers.get("user-agent", "")[:300]
    body = _Return(state=state, code=code, binding=binding, issuer=iss, browser=browser)
    made = await _ask("/identity/v1/provider-sessions", body)
    if isinstance(made, Missing):
        return await _form("/", _why(made, False), made.status)
    await _leave(read_cookie(request))
    answer = page("entered.html", session=None)
    answer.delete_cookie(BINDING, path="/login")
    set_cookie(request, answer, made.value.token)
    return answer


@router.post("/logout")
async def logout(request: Request, operator: OwnForm) -> Response:
    """End the session, for every service at once."""
    await _leave(operator.token)
    answer = RedirectResponse("/login", status_code=303, headers=HEADERS)
    drop_cookie(request, answer)
    return answer


def local(address: str) -> str:
    """A path of this site, whatever was asked for."""
    plain = address.startswith("/") and not address.startswith("//") and "\\" not in address
    return address if plain else "/"


class _Secrets(BaseModel):
    """`SignIn` as it is sent: the wire model hides its password, also from the wire."""

    name: str
    password: str
    browser: str


class _Return(BaseModel):
    """`ProviderFinish` as it is sent."""

    state: str
    code: str
    binding: str
    issuer: str
    browser: str


async def _ask(path: str, body: BaseModel, token: str = "") -> Loaded[SessionAnswer] | Missing:
    async with Platform(settings().base_url, token) as platform:
        return await platform.create(SessionAnswer, path, body)


async def _leave(token: str) -> None:
    if token:
        async with Platform(settings().base_url, token) as platform:
            await platform.delete("/identity/v1/sessions/current")


async def _form(next: str, problem: str = "", status: int = 200, name: str = "") -> Response:
    async with Platform(settings().base_url, "") as platform:
        methods = await platform.get(SignInMethods, "/identity/v1/sign-in-methods")
    provider = None if isinstance(methods, Missing) else methods.value.provider
    shown = status or 503
    return page("login.html", status=shown, session=None, problem=problem, next=next, provider=provider, name=name)


def _why(missing: Missing, with_token: bool) -> str:
    if missing.status == 401 and with_token:
        return _("This token is unknown, expired or revoked. Ask for a new one.")
    if missing.status == 403:
        return _("This token is not an operator's, or it is a session already.")
    if missing.status == 422:
        return _("Name and password are needed.")
    return _("The identity service %(reason)s", reason=missing.reason)
