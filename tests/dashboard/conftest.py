"""The page over a socket, in front of a twin of the services."""

from __future__ import annotations

import re
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
    app = make_app(
        "page", [api.router, twins.identity_routes(twin), twins.routes(twin)], body_limits=limits.BODY_LIMITS
    )
    twins.install(app)
    mount(app)
    return app


@pytest.fixture(scope="module")
def shared_twin() -> twins.Twin:
    """The twin behind this module's site."""
    return twins.busy()


@pytest.fixture(scope="module")
def site(shared_twin: twins.Twin) -> Iterator[str]:
    """Address of the running page."""
    with LiveServer(page_app(shared_twin)) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGELOOP_BASE_URL", server.url)
        settings.cache_clear()
        yield server.url
    settings.cache_clear()


@pytest.fixture
def twin(shared_twin: twins.Twin) -> twins.Twin:
    """A platform in the middle of a turn of the loop, the same at the start of every test."""
    shared_twin.__dict__.update(twins.busy().__dict__)
    return shared_twin


@pytest.fixture
def visitor(site: str, twin: twins.Twin) -> Iterator[httpx.Client]:
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


def enter(visitor: httpx.Client, role: str) -> httpx.Client:
    """The visitor, signed in as somebody with that role."""
    answer = visitor.post("/login", data={"name": role, "password": twins.PASSWORD})
    assert answer.status_code == 303, answer.text
    return visitor


def form_of(client: httpx.Client, path: str) -> dict[str, str]:
    """The hidden fields of the page's first form."""
    text = client.get(path).text.split("<main", 1)[1].split("<form", 1)[1]
    return dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', text.split("</form>", 1)[0]))
