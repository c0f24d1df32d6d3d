"""Makes a FastAPI application as this platform does: problems, traces, body limits, health, stable operation ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel

from services.kit import health
from services.kit.middleware import BodyLimitMiddleware, TraceMiddleware
from services.kit.problems import MEDIA_TYPE, install_problems

VERSION = "1"


class ProblemField(BaseModel):
    """One wrong place in the request."""

    pointer: str
    detail: str


class ProblemDocument(BaseModel):
    """RFC 9457 problem document; every error answer is one."""

    type: str
    title: str
    status: int
    detail: str
    trace_id: str
    errors: list[ProblemField] | None = None


def make_app(
    title: str,
    routers: Mapping[str, APIRouter] | Sequence[APIRouter],
    prefix: str = "",
    body_limits: Mapping[str, int] | None = None,
) -> FastAPI:
    """An application that serves `routers` (by their prefix, or all under `prefix`) and the health routes."""
    app = FastAPI(
        title=title,
        version=VERSION,
        generate_unique_id_function=operation_id,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    by_prefix = routers.items() if isinstance(routers, Mapping) else [(prefix, router) for router in routers]
    for path, router in by_prefix:
        app.include_router(router, prefix=path)
    app.include_router(health.router)
    install_problems(app)
    app.add_middleware(BodyLimitMiddleware, limits=body_limits or {})
    app.add_middleware(TraceMiddleware)
    return app


def operation_id(route: APIRoute) -> str:
    """The stable operation id: the name of the route's function."""
    return route.name


def openapi(app: FastAPI) -> dict[str, Any]:  # Any: JSON
    """The application's OpenAPI document, with problem documents as every error's body."""
    document = app.openapi()
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    reference = "#/components/schemas/{model}"
    schemas["ProblemDocument"] = ProblemDocument.model_json_schema(ref_template=reference)
    schemas["ProblemDocument"].pop("$defs", None)
    schemas["ProblemField"] = ProblemField.model_json_schema(ref_template=reference)
    for path in document.get("paths", {}).values():
        for operation in path.values():
            _use_problems(operation["responses"])
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    return document


def _use_problems(responses: dict[str, Any]) -> None:
    body = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}
    if "422" in responses:
        responses["422"] = {"description": "The request does not parse", "content": body}
    responses["default"] = {"description": "Any other problem", "content": body}
