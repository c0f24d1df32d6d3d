"""The platform as the page sees it: the other services' APIs, called with the operator's token.

A call never raises: it gives `Loaded` with the parsed answer or `Missing` with a reason for people, so that one
service that is down costs its own panel and nothing else.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import Generic, Self, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from services.dashboard.limits import LIMITS
from services.kit.tracing import traceparent

M = TypeVar("M", bound=BaseModel)
JSON = {"Content-Type": "application/json"}
NOT_UNDERSTOOD = "answered something this page does not understand; update the dashboard"


@dataclass(frozen=True)
class Loaded(Generic[M]):
    """An answer. `complete` is False when more pages exist than the page shows."""

    value: M
    complete: bool = True
    ok: bool = True


@dataclass(frozen=True)
class Missing:
    """No answer: why, in words, and the HTTP status (0 where none came)."""

    what: str
    reason: str
    status: int = 0
    ok: bool = False


class Platform:
    """One operator's view of the APIs under `base_url`. Use as an async context manager."""

    def __init__(self, base_url: str, token: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._http = httpx.AsyncClient(
            base_url=base_url,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=httpx.Timeout(LIMITS.call_s, connect=LIMITS.connect_s),
            transport=transport,
            trust_env=False,
            verify=_tls(),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def get(self, kind: type[M], path: str, **params: str | int) -> Loaded[M] | Missing:
        """GET and parse as `kind`."""
        answer = await self._send("GET", path, params=params)
        if isinstance(answer, Missing):
            return answer
        try:
            return Loaded(kind.model_validate_json(answer.content))
        except ValidationError:
            return Missing(path, NOT_UNDERSTOOD)

    async def pages(self, kind: type[M], path: str, most: int, **params: str | int) -> Loaded[M] | Missing:
        """GET a list page by page, up to `most` pages, as one list."""
        first = await self.get(kind, path, **params)
        if isinstance(first, Missing):
            return first
        items: list[object] = list(first.value.items)  # type: ignore[attr-defined]  # every list has items
        cursor = first.value.next_cursor  # type: ignore[attr-defined]  # and a cursor
        for _ in range(most - 1):
            if cursor is None:
                break
            page = await self.get(kind, path, **{**params, "cursor": cursor})
            if isinstance(page, Missing):
                return page
            items += page.value.items  # type: ignore[attr-defined]
            cursor = page.value.next_cursor  # type: ignore[attr-defined]
        return Loaded(first.value.model_copy(update={"items": tuple(items)}), complete=cursor is None)

    async def create(self, kind: type[M], path: str, body: BaseModel) -> Loaded[M] | Missing:
        """POST and parse what was made as `kind`."""
        return await self.change("POST", kind, path, body)

    async def change(
        self, method: str, kind: type[M], path: str, body: BaseModel, headers: dict[str, str] | None = None
    ) -> Loaded[M] | Missing:
        """Send `body` and parse what came of it as `kind`."""
        sent = {**JSON, **(headers or {})}
        answer = await self._send(method, path, content=body.model_dump_json(), headers=sent)
        if isinstance(answer, Missing):
            return answer
        try:
            return Loaded(kind.model_validate_json(answer.content))
        except ValidationError:
            return Missing(path, NOT_UNDERSTOOD)

    async def delete(self, path: str) -> Missing | None:
        """DELETE; None when it worked."""
        answer = await self._send("DELETE", path)
        return answer if isinstance(answer, Missing) else None

    async def post(self, path: str, body: BaseModel, headers: dict[str, str] | None = None) -> Missing | None:
        """POST; None when it worked."""
        answer = await self._send(
            "POST",
            path,
            content=body.model_dump_json(),
            headers={**JSON, **(headers or {})},
        )
        return answer if isinstance(answer, Missing) else None

    async def _send(self, method: str, path: str, **options: object) -> httpx.Response | Missing:
        headers = {"traceparent": traceparent(), **(options.pop("headers", None) or {})}  # type: ignore[dict-item]
        try:
            answer = await self._http.request(method, path, headers=headers, **options)  # type: ignore[arg-type]
        except httpx.TimeoutException:
            return Missing(path, f"did not answer within {LIMITS.call_s:.0f} s; it is tried again by itself")
        except httpx.HTTPError as error:
            return Missing(path, f"cannot be reached ({type(error).__name__}); is the service running?")
        return answer if answer.is_success else Missing(path, _reason(answer), answer.status_code)


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    # Making one costs tens of milliseconds, so it is made once a process and not once a page.
    return ssl.create_default_context()


def _reason(answer: httpx.Response) -> str:
    if answer.status_code == 403:
        return "does not allow this to you; ask an administrator for a role that may do it"
    try:
        document = answer.json()
    except ValueError:
        document = {}
    words = document.get("detail") or document.get("title") if isinstance(document, dict) else None
    return f"says: {words}"[:400] if words else f"answered {answer.status_code}"
