"""Errors as RFC 9457 problem documents (`application/problem+json`).

    Problem                     status and slug of its own class; services subclass it
    ├── MalformedPayload  422   the body or query does not parse
    ├── Unauthorized      401   no token, unknown, expired or revoked
    ├── Forbidden         403   the token lacks the scope
    ├── NotFound          404
    ├── Conflict          409
    ├── TooLarge          413
    ├── TooManyRequests   429   carries Retry-After
    ├── Unavailable       503   a dependency is down; carries Retry-After
    └── DiskFull          507   nothing more can be stored

`detail` says what, where and the remedy. Details of an unexpected exception stay in the log, under the `trace_id`
that the answer carries. A subclass is declared on its route by `responses=declare(Some, Other)`.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import redis.exceptions
import sqlalchemy.exc
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from services.kit.tracing import current_trace_id

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 2
POSTGRES_DISK_FULL = "53100"

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class FieldError:
    """One wrong place in a document: an RFC 6901 pointer and what is wrong there."""

    pointer: str
    detail: str


class Problem(Exception):
    """Base of every error that is answered to a client. Subclasses set `status`, `slug` and `title`."""

    status: ClassVar[int] = 500
    slug: ClassVar[str] = "internal"
    title: ClassVar[str] = "The platform failed"

    def __init__(
        self, detail: str, *, errors: Sequence[FieldError] = (), headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = headers or {}


class MalformedPayload(Problem):
    status, slug, title = 422, "malformed-payload", "The request does not parse"


class Unauthorized(Problem):
    status, slug, title = 401, "unauthorized", "No valid token"

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": "Bearer"})


class Forbidden(Problem):
    status, slug, title = 403, "forbidden", "The token does not allow this"


class NotFound(Problem):
    status, slug, title = 404, "not-found", "There is no such thing"


class Conflict(Problem):
    status, slug, title = 409, "conflict", "The present state does not allow this"


class TooLarge(Problem):
    status, slug, title = 413, "too-large", "The body is larger than allowed"


class TooManyRequests(Problem):
    status, slug, title = 429, "too-many-requests", "Slow down"

    def __init__(self, detail: str, *, retry_after_s: int) -> None:
        super().__init__(detail, headers={"Retry-After": str(max(1, retry_after_s))})


class Unavailable(Problem):
    status, slug, title = 503, "unavailable", "A dependency is down"

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers={"Retry-After": str(RETRY_AFTER_S)})


class DiskFull(Problem):
    status, slug, title = 507, "disk-full", "The platform's disk is full"


def document(problem: Problem) -> dict[str, Any]:  # Any: JSON
    """The problem's JSON document."""
    body: dict[str, Any] = {
        "type": f"/problems/{problem.slug}",
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        "trace_id": current_trace_id(),
    }
    if problem.errors:
        body["errors"] = [{"pointer": error.pointer, "detail": error.detail} for error in problem.errors]
    return body


def response(problem: Problem) -> JSONResponse:
    """The problem as an answer."""
    return JSONResponse(document(problem), status_code=problem.status, headers=problem.headers, media_type=MEDIA_TYPE)


def declare(*kinds: type[Problem]) -> dict[int | str, dict[str, Any]]:  # Any: FastAPI's own type for `responses`
    """The `responses=` of a route that can answer with these problems."""
    by_status: dict[int | str, dict[str, Any]] = {}
    for kind in kinds:
        known = by_status.get(kind.status)
        description = f"{known['description']}; {kind.slug}" if known else f"{kind.title}: {kind.slug}"
        schema = {"$ref": "#/components/schemas/ProblemDocument"}
        by_status[kind.status] = {"description": description, "content": {MEDIA_TYPE: {"schema": schema}}}
    return by_status


def pointer_of(location: Sequence[int | str]) -> str:
    """RFC 6901 pointer of a pydantic error location (`("body", "items", 3)` -> `/items/3`)."""
    parts = [str(part) for part in location]
    if parts and parts[0] in {"body", "query", "path", "header"}:
        parts = parts[1:] if parts[0] == "body" else [parts[0], *parts[1:]]
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def install_problems(app: FastAPI) -> None:
    """Make `app` answer every error with a problem document."""
    app.add_exception_handler(Problem, _on_problem)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(sqlalchemy.exc.OperationalError, _on_dependency)
    app.add_exception_handler(sqlalchemy.exc.InterfaceError, _on_dependency)
    app.add_exception_handler(sqlalchemy.exc.TimeoutError, _on_dependency)
    app.add_exception_handler(sqlalchemy.exc.DataError, _on_value)
    app.add_exception_handler(UnicodeEncodeError, _on_value)
    app.add_exception_handler(redis.exceptions.ConnectionError, _on_dependency)
    app.add_exception_handler(redis.exceptions.TimeoutError, _on_dependency)
    app.add_exception_handler(OSError, _on_system)
    app.add_exception_handler(Exception, _on_unexpected)


async def _on_problem(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Problem)
    return response(error)


async def _on_validation(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    errors = [FieldError(pointer_of(entry["loc"]), entry["msg"]) for entry in error.errors()]
    places = ", ".join(entry.pointer or "/" for entry in errors[:5])
    return response(MalformedPayload(f"the request does not match its schema at {places}", errors=errors[:50]))


async def _on_http(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    title = {404: "There is no such route", 405: "The route has no such method"}.get(error.status_code, "Refused")
    kind = type("Http", (Problem,), {"status": error.status_code, "slug": f"http-{error.status_code}", "title": title})
    return response(kind(str(error.detail), headers=dict(error.headers or {})))


async def _on_dependency(request: Request, error: Exception) -> JSONResponse:
    return response(dependency_problem(error, path=request.url.path))


def dependency_problem(error: Exception, **where: str) -> Problem:
    """What a client is told when the database or Redis failed with `error`; `where` goes to the log."""
    if getattr(getattr(error, "orig", None), "sqlstate", None) == POSTGRES_DISK_FULL:
        return _disk_full()
    log.warning("dependency_down", error=type(error).__name__, **where)
    what = "Redis" if isinstance(error, redis.exceptions.RedisError) else "the database"
    return Unavailable(f"{what} does not answer; nothing was changed. Try again in {RETRY_AFTER_S} s.")


async def _on_value(request: Request, error: Exception) -> JSONResponse:
    """A value that came through every check and that the database cannot hold: NUL in a text, a half of a surrogate
    pair, a number or a date out of range. The transaction was rolled back, so nothing happened.
    """
    log.warning("value_not_storable", path=request.url.path, exc_info=error)
    detail = (
        "a value cannot be stored: NUL or half a character in a text, or a number out of range; nothing was changed"
    )
    return response(MalformedPayload(detail))


async def _on_system(request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        log.error("disk_full", path=request.url.path, file=error.filename)
        return response(_disk_full())
    return await _on_unexpected(request, error)


def _disk_full() -> DiskFull:
    return DiskFull("nothing was stored; free space on the platform's disk, then send again")


async def _on_unexpected(request: Request, error: Exception) -> JSONResponse:
    log.error("unexpected_error", path=request.url.path, exc_info=error)
    return response(Problem("unexpected failure; the log holds the cause under this trace_id"))
