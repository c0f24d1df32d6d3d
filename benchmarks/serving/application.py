"""The application that benches measure: the releases service, and beside it the same server answering a constant."""

from __future__ import annotations

from fastapi import FastAPI, Response

from services.app import build_app
from services.kit.logs import configure_logs
from services.kit.settings import settings

CONSTANT = "/bench/constant"
HEADERS = {"ETag": '"1"', "Cache-Control": "public, max-age=30"}


def create_app() -> FastAPI:
    """The releases service as in production, with one more route."""
    configure_logs("api", settings().log_level)
    app = build_app(("releases",))

    @app.get(CONSTANT)
    async def constant() -> Response:
        return Response(status_code=304, headers=HEADERS)

    return app
