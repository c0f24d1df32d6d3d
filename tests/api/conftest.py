"""A platform with one thing of each kind in it, behind a real socket, and tokens for every caller."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from argon2 import PasswordHasher, profiles

from services.dashboard.sessions import Session
from services.identity import passwords
from services.kit.auth import HALT, IDENTITY_SCOPES, STAFF_SCOPES
from services.kit.settings import Settings, settings
from services.telemetry import gate
from tests.drift.prefect_twin import PrefectTwin
from tests.releases.world import bundle_bytes, enrolment
from tests.support.http import LiveServer
from tests.support.messages import report_bytes, segment_json
from tests.support.platform import Tokens

EVERY_STAFF_SCOPE = STAFF_SCOPES | IDENTITY_SCOPES | {HALT}
PASSWORD = "correct-horse-battery"
OCTETS = {"Content-Type": "application/octet-stream"}
ONE_EACH = httpx.Limits(max_keepalive_connections=0)
"""A connection a request: a machine that was asleep meanwhile has closed the kept ones."""
DRF1 = {"Content-Type": gate.DRF1}


@dataclass
class Site:
    """Address of the platform; `device` and `other` are two devices, `known` what path parameters may name."""

    url: str
    tokens: Tokens
    operator: str
    device: str
    device_id: str
    other: str
    other_id: str
    known: dict[str, tuple[str, ...]] = field(default_factory=dict)
    bodies: dict[str, bytes] = field(default_factory=dict)

    def request(self, method: str, path: str, token: str = "", **options: Any) -> httpx.Response:
        """One request over the socket."""
        headers = {**({"Authorization": f"Bearer {token}"} if token else {}), **options.pop("headers", {})}
        with httpx.Client(base_url=self.url, trust_env=False, timeout=60) as client:
            return client.request(method, path, headers=headers, **options)


@pytest.fixture(scope="package", autouse=True)
def _cheap_hashes() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "HASHER", PasswordHasher.from_parameters(profiles.CHEAPEST))
        yield


@pytest.fixture(scope="module")
def flows() -> Iterator[str]:
    """A flow engine that answers, as Prefect does."""
    with LiveServer(PrefectTwin().app()) as server:
        yield f"{server.url}/api"


@pytest.fixture(scope="module")
def site(
    platform: Settings, live_server: LiveServer, flows: str, tokens: Tokens, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """The platform, with a bundle, a rollout, devices, a layer, reports and segments in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGELOOP_PREFECT_API_URL", flows)
        patch.setenv("EDGELOOP_SERVICE_TOKEN", tokens.service)
        settings.cache_clear()
        yield _furnish(live_server.url, tokens, tmp_path_factory)
    settings.cache_clear()


def _furnish(url: str, tokens: Tokens, folders: pytest.TempPathFactory) -> Site:
    staff = tokens.make("operator", "ada", EVERY_STAFF_SCOPE)
    made = Site(url, tokens, staff, "", "", "", "")
    bundle = bundle_bytes(folders.mktemp("bundles"))
    digests = [
        _ok(made.request("POST", "/releases/v1/bundles/uploads", staff, content=data, headers=OCTETS))["digest"]
        for data in (bundle, bundle_bytes(folders.mktemp("more"), version="1.1.0"))
    ]
    ticket = _ok(made.request("POST", "/releases/v1/enrolment-tokens", staff, json={"uses": 4, "ttl_s": 3_600}))
    joined = [
        _ok(
            made.request("POST", "/releases/v1/enrolments", json=enrolment(ticket["token"], {"device_class": "npu-4t"}))
        )
        for _ in range(2)
    ]
    made.device, made.device_id = joined[0]["access_token"], joined[0]["device_id"]
    made.other, made.other_id = joined[1]["access_token"], joined[1]["device_id"]
    body = {"digest": digests[0], "auto_start": True, "soak_s": 3_600.0}
    rollout = _ok(made.request("POST", "/releases/v1/rollouts", staff, json=body))
    action = _action(made)
    _ok(made.request("POST", "/telemetry/v1/reports", made.device, content=report_bytes(), headers=DRF1))
    _ok(made.request("POST", "/telemetry/v1/segments", made.device, json=segment_json()))
    account = {"name": "eve", "role": "viewer", "password": PASSWORD}
    _ok(made.request("POST", "/identity/v1/accounts", staff, json=account))
    made.known = {
        "digest": tuple(digests),
        "device_id": (made.device_id, made.other_id),
        "controller_id": (made.device_id,),
        "tenant": ("DEFAULT",),
        "action_id": (action,),
        "module_id": ("1",),
        "rollout_id": (rollout["id"],),
        "verb": ("pause", "resume", "rollback", "start"),
        "name": ("timestamp.json", "1.root.json", "eve", "loop", "fleet"),
        "device_class": ("npu-4t",),
        "number": ("0",),
        "path": ("state-key.json",),
    }
    made.bodies = {"bundle": bundle, "report": report_bytes(), "segment": json.dumps(segment_json()).encode()}
    return made


def _action(site: Site) -> str:
    """The number of the action that DDI opens for the device."""
    links = _ok(site.request("GET", f"/releases/ddi/DEFAULT/controller/v1/{site.device_id}", site.device))["_links"]
    hrefs = [str(link["href"]) for name, link in links.items() if name.endswith("Base")]
    return hrefs[0].rsplit("/", 1)[1] if hrefs else "1"


def _ok(answer: httpx.Response) -> Any:  # Any: JSON
    assert answer.is_success, f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text}"
    return answer.json()


def csrf_of(token: str) -> str:
    """What the forms of a session's pages carry."""
    return Session(token, None).csrf  # type: ignore[arg-type]  # the form's proof follows from the token alone
