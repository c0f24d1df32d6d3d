"""The signed-in person's own page: sessions, password, API tokens."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from pydantic import BaseModel
from starlette.responses import RedirectResponse, Response

from contracts.wire.identity import ApiTokenAnswer, ApiTokenList, ApiTokenRequest, SessionAnswer, SessionList
from services.dashboard.guard import Operator, OwnForm
from services.dashboard.languages import _
from services.dashboard.limits import LIMITS
from services.dashboard.pages import HEADERS, page
from services.dashboard.paths import segment
from services.dashboard.platform import Missing, Platform
from services.dashboard.sessions import Session, set_cookie
from services.kit.settings import settings

router = APIRouter()

HOME = "/console/account"
Typed = Annotated[str, Form(max_length=LIMITS.password_chars)]


class _Passwords(BaseModel):
    """`PasswordChange` as it is sent."""

    current: str
    new: str


@router.get("/console/account")
async def show_account(operator: Operator) -> Response:
    """Sessions and tokens of whoever is signed in."""
    return await _page(operator)


@router.post("/console/account/sessions/{session_id}/end")
async def end_session(operator: OwnForm, session_id: str) -> Response:
    """End one of one's own sessions."""
    async with Platform(settings().base_url, operator.token) as platform:
        failed = await platform.delete(f"/identity/v1/sessions/{segment(session_id)}")
    return await _done(operator, failed)


@router.post("/console/account/tokens")
async def create_token(
    operator: OwnForm,
    label: Annotated[str, Form(max_length=60)] = "",
    days: Annotated[int, Form(ge=1, le=365)] = 90,
    reads_only: Annotated[bool, Form()] = False,
) -> Response:
    """Make a token and show it, this once."""
    scopes = tuple(scope for scope in operator.me.scopes if scope.endswith(":read")) if reads_only else ()
    if not label.strip():
        return await _page(operator, problem=_("Say what the token is for."), status=422)
    async with Platform(settings().base_url, operator.token) as platform:
        body = ApiTokenRequest(label=label.strip(), scopes=scopes, days=days)
        made = await platform.create(ApiTokenAnswer, "/identity/v1/tokens", body)
    if isinstance(made, Missing):
        return await _page(operator, problem=_("Nothing was made. %(why)s", why=made.reason), status=made.status or 503)
    return await _page(operator, made=made.value)


@router.post("/console/account/tokens/{token_id}/revoke")
async def revoke_token(operator: OwnForm, token_id: str) -> Response:
    """Revoke one of one's own tokens."""
    async with Platform(settings().base_url, operator.token) as platform:
        failed = await platform.delete(f"/identity/v1/tokens/{segment(token_id)}")
    return await _done(operator, failed)


@router.post("/console/account/password")
async def change_password(
    request: Request, operator: OwnForm, current: Typed = "", new: Typed = "", again: Typed = ""
) -> Response:
    """Change one's own password; all sessions end and this browser gets a new one."""
    if new != again:
        return await _page(operator, problem=_("The two new passwords differ. Nothing was changed."), status=422)
    async with Platform(settings().base_url, operator.token) as platform:
        made = await platform.create(SessionAnswer, "/identity/v1/password", _Passwords(current=current, new=new))
    if isinstance(made, Missing):
        return await _page(
            operator, problem=_("Nothing was changed. %(why)s", why=made.reason), status=made.status or 503
        )
    answer = RedirectResponse(HOME, status_code=303, headers=HEADERS)
    set_cookie(request, answer, made.value.token)
    return answer


async def _done(operator: Session, failed: Missing | None) -> Response:
    if failed is not None and failed.status != 404:
        return await _page(
            operator, problem=_("Nothing was changed. %(why)s", why=failed.reason), status=failed.status or 503
        )
    return RedirectResponse(HOME, status_code=303, headers=HEADERS)


async def _page(
    operator: Session, *, problem: str = "", made: ApiTokenAnswer | None = None, status: int = 200
) -> Response:
    async with Platform(settings().base_url, operator.token) as platform:
        sessions = await platform.get(SessionList, "/identity/v1/sessions")
        tokens = await platform.get(ApiTokenList, "/identity/v1/tokens") if operator.personal else None
    return page(
        "account.html",
        status=status,
        session=operator,
        sessions=sessions,
        tokens=tokens,
        problem=problem,
        made=made,
    )
