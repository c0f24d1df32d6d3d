"""What happens to a telemetry request before its body is read: token, scope, token bucket.

So the cheapest refusals come first, and a flood costs no parsing, no query and no memory beyond its one bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from contracts.wire import Accepted
from services.kit.middleware import QUIET
from services.kit.ratelimit import FleetBucket
from services.kit.tokens import DeskGuard
from services.telemetry.intake import Intake
from services.telemetry.limits import LIMITS

DRF1 = "application/octet-stream"
SCOPE = "telemetry:write"
GUARD = DeskGuard(SCOPE)
_ANSWERS = {
    answer: Response(answer.model_dump_json(), status_code=202, media_type="application/json")
    for answer in (Accepted(), Accepted(duplicate=True))
}
"""Starlette's responses keep no state of a request, so two of them serve all."""


class GatedRoute(APIRoute):
    """A route of devices; its buckets are this process's and Redis's together."""

    async def shortcut(self, request: Request) -> Response | None:
        """An answer without FastAPI's own parsing, where that would change nothing."""
        return None

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The usual handler behind the gate."""
        handle = super().get_route_handler()

        async def gated(request: Request) -> Response:
            setattr(request.state, QUIET, True)  # ten million lines a day that say "accepted" help nobody
            subject = await GUARD(request)
            await bucket_of(request).take(subject.token_id)
            return await self.shortcut(request) or await handle(request)

        return gated


class ReportRoute(GatedRoute):
    """The route of reports: a body of the right media type needs no parsing but the intake's."""

    async def shortcut(self, request: Request) -> Response | None:
        if request.headers.get("content-type") != DRF1:
            return None
        body = await request.body()
        return _ANSWERS[await intake_of(request).report(body)] if body else None


def intake_of(request: Request) -> Intake:
    """The application's intake (`mount`)."""
    intake: Intake = request.app.state.intake
    return intake


def bucket_of(request: Request) -> FleetBucket:
    """The application's bucket of devices, made when it is first asked for."""
    bucket: FleetBucket | None = getattr(request.app.state, "device_bucket", None)
    if bucket is None:
        bucket = request.app.state.device_bucket = FleetBucket("telemetry.device", LIMITS.device, LIMITS.free)
    return bucket
