"""What the page needs beyond its routes: the answers to a missing session and to a foreign form."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import FastAPI, Request
from starlette.responses import RedirectResponse, Response

from services.dashboard.guard import ForeignForm, LoginNeeded
from services.dashboard.pages import HEADERS, page
from services.dashboard.sessions import COOKIE


def mount(app: FastAPI) -> None:
    """Install the handlers; called by the composition root."""
    app.add_exception_handler(LoginNeeded, _to_login)
    app.add_exception_handler(ForeignForm, _refuse)


async def _to_login(request: Request, _error: Exception) -> Response:
    if request.url.path.startswith("/fragments/"):
        return Response("log in again", status_code=401, headers=HEADERS, media_type="text/plain")
    wanted = request.url.path if request.method == "GET" else "/"
    answer = RedirectResponse(f"/login?next={quote(wanted)}", status_code=303, headers=HEADERS)
    answer.delete_cookie(COOKIE)
    return answer


async def _refuse(_request: Request, _error: Exception) -> Response:
    return page(
        "message.html",
        status=403,
        session=None,
        title="Nothing was done",
        lead="This form did not come from a page of your session.",
        remedy="Open the page again and send it from there.",
        back="/",
    )
