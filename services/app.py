"""The composition root of the API: every service under its prefix, the dashboard at `/`, health beside them.

Served by `uvicorn services.app:create_app --factory`. In a cluster one service can be run alone:
`EDGELOOP_SERVICES=telemetry,drift`.
"""

from __future__ import annotations

import os

from fastapi import APIRouter, FastAPI

from services.kit.app import make_app
from services.kit.discovery import DASHBOARD, SERVICES, parts
from services.kit.heap import set_heap_aside
from services.kit.logs import configure_logs
from services.kit.metrics import serve
from services.kit.settings import settings
from services.kit.tracing import start_spans

SERVICES_VARIABLE = "EDGELOOP_SERVICES"


def create_app() -> FastAPI:
    """The application with all services, or with those named by `EDGELOOP_SERVICES`."""
    configure_logs("api", settings().log_level)
    serve("api")
    start_spans("api")
    app = build_app(_chosen())
    set_heap_aside()
    return app


def build_app(services: tuple[str, ...]) -> FastAPI:
    """The application with these services, without touching the process's logs."""
    routers: dict[str, APIRouter] = {_prefix(name): module.router for name, module in parts("api", services)}
    app = make_app("EdgeLoop", routers, body_limits=body_limits(services))
    for _, module in parts("mount", services):
        module.mount(app)
    return app


def body_limits(services: tuple[str, ...]) -> dict[str, int]:
    """Path prefix -> bytes, from each service's own `limits.BODY_LIMITS`."""
    return {
        _prefix(name) + path: limit
        for name, module in parts("limits", services)
        for path, limit in getattr(module, "BODY_LIMITS", {}).items()
    }


def _prefix(service: str) -> str:
    return "" if service == DASHBOARD else f"/{service}"


def _chosen() -> tuple[str, ...]:
    everything = (*SERVICES, DASHBOARD)
    named = os.environ.get(SERVICES_VARIABLE, "")
    if not named:
        return everything
    chosen = tuple(name.strip() for name in named.split(","))
    unknown = set(chosen) - set(everything)
    if unknown:
        known = ", ".join(everything)
        raise ValueError(f"{SERVICES_VARIABLE} names unknown services {sorted(unknown)}; known: {known}")
    return chosen
