"""The API as documents that a fuzzer reads: one a service, the console's pages too, built from the route list."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute, iter_route_contexts

from services.app import build_app
from services.kit.app import make_app, openapi
from services.kit.discovery import DASHBOARD, SERVICES
from services.kit.routes import Operation, operations
from services.openapi import documents

HEALTH = "health"
PARTS = (*SERVICES, DASHBOARD, HEALTH)
Json = dict[str, Any]  # Any: JSON
Named = tuple[str, str]


def whole() -> FastAPI:
    """The application as it is served."""
    return build_app((*SERVICES, DASHBOARD))


def route_list() -> list[Operation]:
    """Every operation of the application."""
    return operations(whole())


def part_of(path: str) -> str:
    """Which part a path belongs to: a service, the health routes, or else the console."""
    first = path.split("/")[1]
    if first in SERVICES:
        return first
    return HEALTH if first in {"healthz", "readyz"} else DASHBOARD


def document_of(part: str) -> Json:
    """OpenAPI of one part; the health routes stand alone, though every service carries them."""
    if part == DASHBOARD:
        return _console()
    if part == HEALTH:
        return openapi(make_app("health", []))
    found: Json = json.loads(documents()[f"{part}.json"])
    return {**found, "paths": {path: item for path, item in found["paths"].items() if part_of(path) == part}}


def operations_of(document: Json) -> set[Named]:
    """(method, path) of everything in a document."""
    return {(method.upper(), path) for path, item in document["paths"].items() for method in item}


def _console() -> Json:
    """The console hides from the published documents; here its routes are described like any other's."""
    shown = FastAPI(generate_unique_id_function=lambda route: f"{sorted(route.methods)[0]} {route.path_format}")
    for route in iter_route_contexts(whole().routes):
        original = route.original_route
        if isinstance(original, APIRoute) and part_of(route.path) == DASHBOARD:
            shown.add_api_route(route.path, original.endpoint, methods=sorted(route.methods or ()), response_model=None)
    found = get_openapi(title="console", version="1", routes=shown.routes)
    for item in found["paths"].values():
        for operation in item.values():
            operation["responses"] = {"default": {"description": "a page, a redirect or a refusal"}}
    return found
