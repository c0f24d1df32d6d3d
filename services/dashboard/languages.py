"""Languages of the page: catalogues in `locale/`, chosen by the browser's wish or by the switch on the page.

Texts are English in code and templates (`_("...")`, `{% trans %}`); `locale/zh.po` translates them. Catalogues are
read from their text form at the first use, so there is nothing to build. A text without translation stays English.
"""

from __future__ import annotations

import io
from contextvars import ContextVar
from functools import lru_cache
from importlib import resources
from typing import Annotated, Any
from urllib.parse import urlsplit

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.support import NullTranslations, Translations
from fastapi import APIRouter, Form, Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LANGUAGES = {"en": "English", "zh": "中文"}
TAGS = {"en": "en", "zh": "zh-Hans"}
COOKIE = "edgeloop_language"
DEFAULT = "en"
YEAR_S = 365 * 86_400

router = APIRouter()
_language: ContextVar[str] = ContextVar("language", default=DEFAULT)


class LanguageMiddleware:
    """Sets the language of each request, and says so in the answer's headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        chosen = choose(Headers(scope=scope))
        token = _language.set(chosen)

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if headers.get("content-type", "").startswith("text/html"):
                    headers["Content-Language"] = TAGS[chosen]
            await send(message)

        try:
            await self._app(scope, receive, send_named)
        finally:
            _language.reset(token)


def choose(headers: Headers) -> str:
    """The language that the switch set, else the best of Accept-Language, else English."""
    switched = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
    if switched in LANGUAGES:
        return switched
    wishes = []
    for place, part in enumerate(headers.get("accept-language", "")[:400].split(",")):
        tag, _, quality = part.strip().partition(";q=")
        try:
            weight = float(quality) if quality else 1.0
        except ValueError:
            weight = 0.0
        wishes.append((-weight, place, tag.split("-")[0].lower()))
    return next((tag for weight, _, tag in sorted(wishes) if tag in LANGUAGES and weight < 0), DEFAULT)


def current() -> str:
    """The language of this request."""
    return _language.get()


def tag() -> str:
    """The language of this request as the page declares it."""
    return TAGS[current()]


def gettext(text: str) -> str:
    """The text in the language of this request."""
    return catalogue(current()).ugettext(text)


def ngettext(one: str, many: str, count: int) -> str:
    """The text for that many, in the language of this request."""
    return catalogue(current()).ungettext(one, many, count)


def _(text: str, **values: Any) -> str:  # Any: whatever the text shows
    """Like `gettext`, with values put in by name."""
    return gettext(text) % values if values else gettext(text)


def marked(text: str) -> str:
    """The text itself, marked for the catalogues; it is translated where it is shown."""
    return text


@lru_cache(maxsize=len(LANGUAGES))
def catalogue(language: str) -> NullTranslations:
    """The translations of a language; English needs none."""
    file = resources.files("services.dashboard") / "locale" / f"{language}.po"
    if not file.is_file():
        return NullTranslations()
    packed = io.BytesIO()
    write_mo(packed, read_po(io.BytesIO(file.read_bytes()), locale=language))
    packed.seek(0)
    return Translations(packed)


@router.post("/language")
def switch(request: Request, to: Annotated[str, Form(max_length=8)]) -> Response:
    """Keep the language that was chosen, and go back. It changes nothing but the page's words."""
    came_from = urlsplit(request.headers.get("referer", ""))
    own = came_from.netloc == request.headers.get("host", "") and not came_from.path.startswith("//")
    answer = RedirectResponse((came_from.path if own else "") or "/", status_code=303)
    if to in LANGUAGES:
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, to, max_age=YEAR_S, httponly=True, samesite="lax", secure=secure, path="/")
    return answer
