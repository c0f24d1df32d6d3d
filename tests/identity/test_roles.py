"""Attempts generated from the route list: every role on every route, devices and accounts on each other's things."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from contracts.wire.identity import Role
from services.app import build_app
from services.identity.roles import ORDER, SCOPES_OF
from services.kit.auth import OWN, SCOPES
from services.kit.discovery import DASHBOARD, SERVICES
from services.kit.routes import Operation, operations
from tests.identity.conftest import People
from tests.support.http import ApiClient
from tests.support.platform import Tokens

BODY = {
    "status": {"execution": "closed", "result": {"finished": "success"}},
    "confirmation": "confirmed",
    "data": {"VIN": "another"},
}
ROUTES = [operation for operation in operations(build_app((*SERVICES, DASHBOARD))) if operation.scope is not None]


def address(operation: Operation) -> str:
    return re.sub(r"\{[^}]*\}", "x", operation.path)


@pytest.mark.parametrize("role", ORDER)
def test_no_role_gets_past_a_route_that_it_may_not_use(people: People, client: ApiClient, role: str) -> None:
    token = people.enter(f"cross-{role}", role)
    forbidden = [route for route in ROUTES if route.scope != OWN and route.scope not in SCOPES_OF[Role(role)]]
    assert forbidden, "every role lacks something: a device's routes at least"
    allowed = []
    for route in forbidden:
        answer = client.request(route.method, address(route), token=token, json={})
        if answer.status_code != 403:
            allowed.append((route.method, route.path, answer.status_code))
    assert allowed == []


def test_each_role_may_do_all_that_the_one_before_may() -> None:
    for lower, upper in pairwise(ORDER):
        assert SCOPES_OF[lower] < SCOPES_OF[upper]
    assert set().union(*SCOPES_OF.values()) <= SCOPES
    assert not any(scope.endswith(":write") for scope in SCOPES_OF[ORDER[0]])


def test_a_viewer_changes_nothing_by_any_route(people: People, client: ApiClient) -> None:
    """Whatever changes something is refused, except what concerns the viewer's own sessions and tokens."""
    token = people.enter("cross-looker", "viewer")
    preflight = {"/releases/v1/rollout-preflights"}
    for route in ROUTES:
        if route.method in ("GET", "HEAD") or route.scope == OWN or route.path in preflight:
            continue
        answer = client.request(route.method, address(route), token=token, json={})
        assert answer.status_code == 403, f"{route.method} {route.path}: {answer.status_code}"


def test_a_device_reaches_no_route_of_people_and_nothing_of_another_device(client: ApiClient, tokens: Tokens) -> None:
    token = tokens.device("d-cross")
    staff = [
        route
        for route in ROUTES
        if route.scope == OWN or route.scope not in ("telemetry:write", "updates:read", "feedback:write")
    ]
    for route in staff:
        answer = client.request(route.method, address(route), token=token, json={})
        assert answer.status_code == 403, f"{route.method} {route.path}: {answer.status_code}"
    for route in ROUTES:
        if "{controller_id}" in route.path:
            path = route.path.replace("{tenant}", "default").replace("{controller_id}", "another-device")
            answer = client.request(route.method, re.sub(r"\{[^}]*\}", "1", path), token=token, json=BODY)
            assert answer.status_code in (401, 403, 404), f"{route.method} {route.path}: {answer.status_code}"


def test_nobody_reads_or_ends_what_belongs_to_another_account(people: People, client: ApiClient) -> None:
    mine, foreign = people.enter("cross-a", "admin"), people.enter("cross-b", "admin")
    made = client.post("/identity/v1/tokens", token=mine, json={"label": "mine"}).json()
    named = {"session_id": mine.split("_")[1], "token_id": made["id"]}
    tried = 0
    for route in ROUTES:
        if route.scope != OWN or "{" not in route.path:
            continue
        for name, value in named.items():
            if f"{{{name}}}" in route.path:
                path = route.path.replace(f"{{{name}}}", value)
                assert client.request(route.method, path, token=foreign, json={}).status_code == 404
                tried += 1
    assert tried >= 2
    assert people.me(mine).status_code == 200
    assert client.get("/drift/v1/cohorts", token=made["token"]).status_code == 200
