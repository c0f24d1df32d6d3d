"""What an application serves and who may call it: every operation with the scope that it demands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, iter_route_contexts

from services.kit.auth import Guard


@dataclass(frozen=True)
class Operation:
    """A method of a path; `guards` are the functions that it depends on, directly or not."""

    method: str
    path: str
    guards: tuple[Callable[..., Any], ...]  # Any: dependencies have any signature

    @property
    def scope(self) -> str | None:
        """The scope it demands, or None."""
        guards: tuple[object, ...] = self.guards
        return next((guard.scope for guard in guards if isinstance(guard, Guard)), None)


def operations(app: FastAPI) -> list[Operation]:
    """Every operation of the application, sorted by path."""
    found = [operation for route in iter_route_contexts(app.routes) for operation in _of(route)]
    return sorted(found, key=lambda operation: (operation.path, operation.method))


def _of(route: Any) -> Iterator[Operation]:  # Any: FastAPI's context stands in for an APIRoute by attribute access
    if not isinstance(route.original_route, APIRoute):
        return
    guards = tuple(node.call for node in _walk(route.dependant) if node.call is not None)
    for method in sorted(route.methods or ()):
        yield Operation(method, route.path, guards)


def _walk(node: Dependant) -> Iterator[Dependant]:
    yield node
    for child in node.dependencies:
        yield from _walk(child)
