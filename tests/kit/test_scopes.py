"""Every operation demands a scope, or is on the public list, with a reason."""

from __future__ import annotations

import pytest

from services.app import build_app
from services.dashboard.guard import current_session
from services.kit.auth import OWN
from services.kit.discovery import DASHBOARD, SERVICES
from services.kit.routes import Operation, operations
from tests.support.http import ApiClient
from tests.support.platform import Tokens

PUBLIC = {
    ("GET", "/healthz"): "probes carry no token and learn one word",
    ("GET", "/readyz"): "probes carry no token and learn which dependency is down",
    ("POST", "/releases/v1/enrolments"): "a device that joins has only its one-time token, in the body",
    ("GET", "/releases/tuf/metadata/{name}"): "signed and the same for all; a TUF client sends no token",
    ("GET", "/identity/v1/sign-in-methods"): "what the sign-in page offers; names the identity provider at most",
    ("POST", "/identity/v1/sessions"): "the way to a session, with name and password in the body",
    ("POST", "/identity/v1/provider-sign-ins"): "the way to the identity provider",
    ("POST", "/identity/v1/provider-sessions"): "the way back from it; its answer and the browser's cookie are checked",
    ("GET", "/login"): "the way to a session",
    ("POST", "/login"): "the way to a session; takes name and password, or an operator token",
    ("GET", "/login/provider"): "the way to the identity provider",
    ("GET", "/login/provider/return"): "the way back from it; the browser's cookie must fit",
    ("POST", "/language"): "which words the page uses, kept in a cookie; nothing else changes",
    ("GET", "/static/{tag}/{name}"): "style sheet and script of the console",
}


def all_operations() -> list[Operation]:
    return operations(build_app((*SERVICES, DASHBOARD)))


def guarded(operation: Operation) -> bool:
    """By a scope, or by the console's session, which acts with its operator's own token."""
    return operation.scope is not None or current_session in operation.guards


def test_every_operation_has_a_scope_or_is_public_for_a_reason() -> None:
    open_ones = {(operation.method, operation.path) for operation in all_operations() if not guarded(operation)}
    assert open_ones == set(PUBLIC)


def test_every_scoped_operation_refuses_a_caller_without_a_token(client: ApiClient) -> None:
    for operation in all_operations():
        if operation.scope is not None:
            path = operation.path.replace("{path:path}", "x").replace("{", "").replace("}", "")
            answer = client.request(operation.method, path, json={})
            assert answer.status_code == 401, f"{operation.method} {operation.path}: {answer.text}"


@pytest.mark.parametrize("kind", ["device", "operator"])
def test_a_token_opens_nothing_beyond_its_scopes(client: ApiClient, tokens: Tokens, kind: str) -> None:
    token = tokens.device("d1") if kind == "device" else tokens.make("operator", "reader", ["drift:read"])
    allowed = {"device": {"telemetry:write", "updates:read", "feedback:write"}, "operator": {"drift:read", OWN}}[kind]
    for operation in all_operations():
        if operation.scope is not None and operation.scope not in allowed:
            path = operation.path.replace("{path:path}", "x").replace("{", "").replace("}", "")
            answer = client.request(operation.method, path, json={}, token=token)
            assert answer.status_code == 403, f"{operation.method} {operation.path}: {answer.text}"
