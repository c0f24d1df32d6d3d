"""The page over a socket, in front of a twin of the services, with a real Redis for its sessions."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI

from services.dashboard import api, limits
from services.dashboard.mount import mount
from services.kit.app import make_app
from services.kit.settings import settings
from tests.dashboard import twin as twins
from tests.support.http import LiveServer


def page_app(twin: twins.Twin) -> FastAPI:
    """Dashboard and twin in one application, as the composition root mounts them."""
    app = make_app("page", [api.router, twins.routes(twin)], body_limits=limits.BODY_LIMITS)
    twins.install(app)
    mount(app)
    return app


@pytest.fixture
def twin() -> twins.Twin:
    """A platform in the middle of a turn of the loop."""
    return twins.busy()


@pytest.fixture
def site(twin: twins.Twin, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Address of the running page."""
    monkeypatch.setenv("EDGELOOP_REDIS_URL", redis_url)
    with LiveServer(page_app(twin)) as server:
        monkeypatch.setenv("EDGELOOP_BASE_URL", server.url)
        settings.cache_clear()
        yield server.url
    settings.cache_clear()


@pytest.fixture
def visitor(site: str) -> Iterator[httpx.Client]:
    """A browser without script, not logged in."""
    headers = {"Origin": site, "Sec-Fetch-Site": "same-origin"}
    with httpx.Client(base_url=site, headers=headers, follow_redirects=False, trust_env=False) as made:
        yield made


@pytest.fixture
def operator(visitor: httpx.Client) -> httpx.Client:
    """The same, logged in."""
    answer = visitor.post("/login", data={"token": twins.TOKEN})
    assert answer.status_code == 303
    return visitor
