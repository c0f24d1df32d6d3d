"""Middleware of every API, in plain ASGI: trace, access log, security headers, and a body limit before any parsing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contracts.tracing import Span
from services.kit.limits import HTTP
from services.kit.metrics import note_request
from services.kit.problems import TooLarge, response
from services.kit.tracing import span, start_trace

QUIET_PATHS = frozenset({"/healthz", "/readyz"})

QUIET = "quiet_when_fine"
"""A route that sets this in `request.state` gets a line in the log only for what it refuses."""

log = structlog.get_logger("services.access")


class TraceMiddleware:
    """Starts the request's trace, answers with `X-Trace-Id`, counts the answer, writes one log line a request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        trace_id = start_trace(Headers(scope=scope).get("traceparent"))
        begun, status = time.perf_counter(), 500

        async def send_traced(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Trace-Id"] = trace_id
                headers.setdefault("X-Content-Type-Options", "nosniff")
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            if scope["path"] in QUIET_PATHS:
                await self._app(scope, receive, send_traced)
            else:
                with span(scope["method"], "server", http__request__method=scope["method"]) as here:
                    await self._app(scope, receive, send_traced)
                    _name(here, scope, status)
        finally:
            spent = time.perf_counter() - begun
            note_request(scope["path"], getattr(scope.get("route"), "path", None), scope["method"], status, spent)
            quiet = scope["path"] in QUIET_PATHS or (status < 400 and scope.get("state", {}).get(QUIET, False))
            if not quiet:
                log.info(
                    "request", method=scope["method"], path=scope["path"], status=status, ms=round(spent * 1000, 1)
                )


def _name(here: Span, scope: Scope, status: int) -> None:
    """Name the span after service and route, never after the address: addresses hold ids."""
    route = getattr(scope.get("route"), "path", None)
    if route is not None:
        service = scope["path"].split("/", 2)[1]
        route = route if route.startswith(f"/{service}") else f"/{service}{route}"
        here.rename(f"{scope['method']} {route}")
        here.note(http__route=route)
    here.note(http__response__status_code=status)


class BodyLimitMiddleware:
    """Answers 413 as soon as a body is known to be too large: by its stated length, else while it arrives.

    `limits` maps a path prefix to its bytes; the longest prefix that fits decides.
    """

    def __init__(self, app: ASGIApp, limits: Mapping[str, int]) -> None:
        self._app = app
        self._limits = sorted(limits.items(), key=lambda item: -len(item[0]))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._limit(scope["path"])
        stated = Headers(scope=scope).get("content-length", "0")
        if not stated.isdigit() or int(stated) > limit:
            await response(_too_large(scope["path"], limit))(scope, receive, send)
            return
        await self._bounded(scope, receive, send, limit)

    async def _bounded(self, scope: Scope, receive: Receive, send: Send, limit: int) -> None:
        """Run the application, but cut off a body of no stated length at the limit and answer in its place.

        FastAPI turns whatever stops the reading of a body into a 400; so its answer is dropped past the limit.
        """
        received, answered = 0, False

        async def receive_bounded() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise _too_large(scope["path"], limit)
            return message

        async def send_unless_over(message: Message) -> None:
            nonlocal answered
            if received <= limit or answered:
                answered = True
                await send(message)

        with contextlib.suppress(TooLarge):
            await self._app(scope, receive_bounded, send_unless_over)
        if received > limit and not answered:
            await response(_too_large(scope["path"], limit))(scope, receive, send)

    def _limit(self, path: str) -> int:
        return next((limit for prefix, limit in self._limits if path.startswith(prefix)), HTTP.body_bytes)


def _too_large(path: str, limit: int) -> TooLarge:
    return TooLarge(f"a body sent to {path} may have {limit} bytes; send less")
