"""What the page needs beyond its routes: the answers to a missing session and to a foreign form."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import FastAPI, Request
from starlette.responses import RedirectResponse, Response

from services.dashboard.guard import LIVE, ForeignForm, IdentityDown, LoginNeeded, PasswordNeeded
from services.dashboard.languages import LanguageMiddleware, _
from services.dashboard.pages import HEADERS, page
from services.dashboard.sessions import drop_cookie


def mount(app: FastAPI) -> None:
    """Install the handlers; called by the composition root."""
    app.add_middleware(LanguageMiddleware)
    app.add_exception_handler(IdentityDown, _unknown)
    app.add_exception_handler(LoginNeeded, _to_login)
    app.add_exception_handler(PasswordNeeded, _to_password)
    app.add_exception_handler(ForeignForm, _refuse)


async def _to_login(request: Request, _error: Exception) -> Response:
    if request.url.path.startswith(LIVE):
        return Response("sign in again", status_code=401, headers=HEADERS, media_type="text/plain")
    wanted = request.url.path if request.method == "GET" else "/"
    answer = RedirectResponse(f"/login?next={quote(wanted)}", status_code=303, headers=HEADERS)
    drop_cookie(request, answer)
    return answer


async def _to_password(request: Request, _error: Exception) -> Response:
    if request.url.path.startswith(LIVE):
        return Response("choose a password first", status_code=401, headers=HEADERS, media_type="text/plain")
    return RedirectResponse("/console/account", status_code=303, headers=HEADERS)


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, IdentityDown)
    if request.url.path.startswith(LIVE):
        return Response(error.missing.reason, status_code=503, headers=HEADERS, media_type="text/plain")
    return page(
        "message.html",
        status=503,
        session=None,
        title=_("Nobody can say who you are"),
        lead=_("The identity service %(reason)s", reason=error.missing.reason),
        remedy=_("Nothing was done. Try again when the cause is gone; your session stays as it is."),
        back=request.url.path if request.method == "GET" else "/",
    )


async def _refuse(_request: Request, _error: Exception) -> Response:
    return page(
        "message.html",
        status=403,
        session=None,
        title=_("Nothing was done"),
        lead=_("This form did not come from a page of your session."),
        remedy=_("Open the page again and send it from there."),
        back="/",
    )
