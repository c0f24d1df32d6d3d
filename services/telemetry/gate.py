"""What happens to a telemetry request before its body is read: token, scope, token bucket.

So the cheapest refusals come first, and a flood costs no parsing, no query and no memory beyond its one bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from services.kit.middleware import QUIET
from services.kit.ratelimit import FleetBucket
from services.kit.tokens import DeskGuard
from services.telemetry.limits import LIMITS

SCOPE = "telemetry:write"
GUARD = DeskGuard(SCOPE)


class GatedRoute(APIRoute):
    """A route of devices; its buckets are this process's and Redis's together."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The usual handler behind the gate."""
        handle = super().get_route_handler()

        async def gated(request: Request) -> Response:
            setattr(request.state, QUIET, True)  # ten million lines a day that say "accepted" help nobody
            subject = await GUARD(request)
            await bucket_of(request).take(subject.token_id)
            return await handle(request)

        return gated


def bucket_of(request: Request) -> FleetBucket:
    """The application's bucket of devices, made when it is first asked for."""
    bucket: FleetBucket | None = getattr(request.app.state, "device_bucket", None)
    if bucket is None:
        bucket = request.app.state.device_bucket = FleetBucket("telemetry.device", LIMITS.device, LIMITS.free)
    return bucket
