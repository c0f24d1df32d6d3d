"""A twin of the services' read and action routes: what the page is shown, and what it sent, under the test's control.

It answers with the wire models themselves, so a page that works here reads the real contract.
"""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request

from tests.dashboard.twin.builds import builds_routes
from tests.dashboard.twin.curation import curation_routes
from tests.dashboard.twin.drift import drift_routes
from tests.dashboard.twin.identity import identity_routes
from tests.dashboard.twin.releases import releases_routes
from tests.dashboard.twin.samples import COHORTS, build_of, busy
from tests.dashboard.twin.settings import settings_routes
from tests.dashboard.twin.state import DAY, EVIL, PASSWORD, TOKEN, Refusal, Twin, bearer, install

__all__ = [
    "COHORTS",
    "DAY",
    "EVIL",
    "PASSWORD",
    "TOKEN",
    "Twin",
    "build_of",
    "busy",
    "identity_routes",
    "install",
    "routes",
]

PARTS = (settings_routes, releases_routes, drift_routes, curation_routes, builds_routes)


def routes(twin: Twin) -> APIRouter:
    """Every service but identity, behind the scopes that the real ones demand."""

    def guard(request: Request) -> None:
        scopes = twin.scopes(bearer(request))
        if not scopes:
            raise Refusal(401, "the token is unknown")
        resource = request.url.path.split("/")[1]
        halts = request.url.path.endswith(("/pause", "/rollback", "/kill-switch"))
        needed = "releases:halt" if halts else f"{resource}:write"
        if request.method != "GET" and needed not in scopes:
            raise Refusal(403, f"this needs the scope {needed}")
        if any(request.url.path.startswith(prefix) for prefix in twin.down):
            raise Refusal(503, "the database does not answer; nothing was changed")

    router = APIRouter(dependencies=[Depends(guard)])
    for part in PARTS:
        router.include_router(part(twin))
    return router
