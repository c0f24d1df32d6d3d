"""Every operation against every caller, from the route list: what its scope does not allow is not allowed.

**Tenants.** One installation serves one operator: there are no projects or organisations, and DDI knows the one tenant
`DEFAULT`. What belongs to somebody belongs to a device (its actions, its feedback, its keys) or to an account (its
sessions and API tokens). So "cross-tenant" means here: device A's token on device B's things, one account on another's,
a gateway on a device that joined by itself. A deployment for several customers is several installations.

The expectation comes from the scope that the route declares and from the role's or kind's scopes, never from a list
of routes; routes that have no scope are those of `tests/kit/test_scopes.py`.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from contracts.wire.identity import Role
from services.dashboard.guard import current_session
from services.dashboard.sessions import COOKIE
from services.identity.roles import SCOPES_OF
from services.kit.auth import DEVICE_SCOPES, HALT, OWN, STAFF_SCOPES, allows, revoke
from services.kit.database import transaction
from services.kit.problems import MEDIA_TYPE
from services.kit.routes import Operation
from tests.api.conftest import ONE_EACH, PASSWORD, Site, csrf_of
from tests.api.documents import route_list

NOBODY: frozenset[str] = frozenset()
SPECIAL = {
    ("POST", "/releases/v1/bundle-keys"): "content keys are for devices",
    ("POST", "/releases/v1/feedback"): "only a device may report about itself",
}
CONSOLE_NEEDS = {
    "/console/kill-switch": HALT,
    "/console/rollouts/{rollout_id}/{verb}": "releases:write",
    "/console/flows/{run_id}/retry": "drift:write",
    "/console/settings/change": "drift:write",
    "/console/new-account": "identity:write",
    "/console/accounts/{name}/{verb}": "identity:write",
    "/console/accounts/{name}/tokens/{token_id}": "identity:write",
}
"""What the console's own forms come to; the services check again. All others are about the caller's own things."""
DDI_BODY = {
    "status": {"execution": "proceeding", "result": {"finished": "none"}},
    "confirmation": "confirmed",
    "data": {"scenario": "home"},
}
"""Fits every DDI message: members that a message does not have are ignored."""
CONSOLE_OWN = {
    "/console/account/password",
    "/console/account/sessions/{session_id}/end",
    "/console/account/tokens",
    "/console/account/tokens/{token_id}/revoke",
    "/logout",
}


@dataclass(frozen=True)
class Caller:
    """Somebody with a token. `valid` false: it is missing, wrong, expired or revoked."""

    name: str
    token: str
    scopes: frozenset[str] = NOBODY
    kind: str = "operator"
    valid: bool = True

    def may(self, scope: str) -> bool:
        if not self.valid:
            return False
        return self.kind == "operator" if scope == OWN else allows(self.scopes, scope)


@pytest.fixture(scope="module")
def callers(site: Site) -> list[Caller]:
    """Each role, each kind of token, and each way in which a token is no good."""
    made = [Caller("nobody", "", valid=False), Caller("a stranger", "el_0123456789abcdef_x" * 3, valid=False)]
    made += [Caller(f"role {role.value}", _sign_in(site, role), SCOPES_OF[role]) for role in Role]
    for kind, scopes in (("device", DEVICE_SCOPES), ("operator", SCOPES_OF[Role.ADMIN]), ("service", STAFF_SCOPES)):
        old = site.tokens.make(kind, f"old-{kind}", scopes, ttl_s=-1.0)  # type: ignore[arg-type]  # one of the kinds
        gone = site.tokens.make(kind, f"gone-{kind}", scopes)  # type: ignore[arg-type]  # one of the kinds
        with transaction() as session:
            assert revoke(session, kind, f"gone-{kind}") == 1  # type: ignore[arg-type]  # one of the kinds
        made += [Caller(f"expired {kind}", old, valid=False), Caller(f"revoked {kind}", gone, valid=False)]
    gateway = site.request("POST", "/releases/v1/ddi/gateway-tokens", site.operator).json()["token"]
    return [
        *made,
        Caller("a device", site.other, DEVICE_SCOPES, "device"),
        Caller("a service", site.tokens.service, STAFF_SCOPES, "service"),
        Caller("a gateway", gateway, frozenset({"updates:read", "feedback:write"}), "service"),
        Caller(
            "a token that only reads", site.tokens.make("operator", "reader", ["drift:read"]), frozenset({"drift:read"})
        ),
    ]


@pytest.fixture(scope="module")
def web(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.url, trust_env=False, timeout=60, limits=ONE_EACH) as client:
        yield client


def scoped() -> list[Operation]:
    return [one for one in route_list() if one.scope is not None]


def console() -> list[Operation]:
    return [one for one in route_list() if current_session in one.guards]


def test_no_caller_gets_more_than_the_scope_of_the_route_allows(
    site: Site, web: httpx.Client, callers: list[Caller]
) -> None:
    asked, allowed_wrongly, refused_wrongly = 0, [], []
    for operation in scoped():
        for caller in callers:
            status, slug = _ask(web, operation, caller)
            asked += 1
            line = f"{operation.method} {operation.path} ({operation.scope}) by {caller.name}: {status}"
            expected = caller.may(str(operation.scope))
            if not expected and status != (403 if caller.valid else 401):
                allowed_wrongly.append(line)
            if expected and slug in ("unauthorized", "forbidden") and not _special(operation, caller):
                refused_wrongly.append(line)
    assert asked == len(callers) * len(scoped()) > 1_000
    assert not allowed_wrongly
    assert not refused_wrongly


def test_the_console_opens_for_sessions_only_and_for_no_form_of_another_site(
    site: Site, web: httpx.Client, callers: list[Caller]
) -> None:
    wrong = []
    for operation in console():
        for caller in callers:
            for where in (site.url, "https://evil.example"):
                headers = {"Origin": where, "Cookie": f"{COOKIE}={caller.token}"}
                answer = web.request(operation.method, _path(operation), headers=headers, data={"csrf": "guessed"})
                signed_in = caller.valid and caller.name.startswith("role ")
                closed = answer.status_code in (401, 403) or answer.headers.get("location", "").startswith("/login")
                if not closed and not (signed_in and operation.method == "GET"):
                    wrong.append(f"{operation.method} {operation.path} by {caller.name}: {answer.status_code}")
    assert not wrong


def test_every_form_of_the_console_is_either_about_ones_own_things_or_refused_to_who_may_not(
    site: Site, web: httpx.Client, callers: list[Caller]
) -> None:
    forms = {one.path for one in console() if one.method == "POST"}
    assert forms == set(CONSOLE_NEEDS) | CONSOLE_OWN
    for path, scope in CONSOLE_NEEDS.items():
        for caller in callers:
            if not caller.name.startswith("role ") or caller.may(scope):
                continue
            form = {"csrf": csrf_of(caller.token), "reason": "a test", "version": "1", "killed": "true", "word": "stop"}
            form |= {"name": "window_days", "cohorts": "*", "value": "7"}
            headers = {"Origin": site.url, "Sec-Fetch-Site": "same-origin", "Cookie": f"{COOKIE}={caller.token}"}
            where = path.replace("{verb}", "disable" if "{name}" in path else "start")
            where = where.replace("{rollout_id}", site.known["rollout_id"][0])
            where = where.replace("{name}", "ada").replace("{token_id}", "0" * 16)
            answer = web.post(where.replace("{run_id}", "x"), headers=headers, data=form)
            assert answer.status_code == 403, f"{path} by {caller.name}: {answer.status_code}"
    assert site.request("GET", "/releases/v1/kill-switch", site.operator).json()["killed"] is False


def test_a_device_reaches_nothing_that_is_another_devices(site: Site, web: httpx.Client) -> None:
    """Every operation whose path names a device, with the other one's token; the own token shows that it exists."""
    named = [one for one in scoped() if one.scope in DEVICE_SCOPES and "{controller_id}" in one.path]
    assert len(named) >= 14
    for operation in named:
        path = _of(operation, site)
        foreign = web.request(operation.method, path, headers=_bearer(site.other), json=DDI_BODY)
        assert foreign.status_code in (401, 403, 404), f"{operation.method} {path}: {foreign.status_code}"
        nobody = web.request(
            operation.method, path.replace(site.device_id, "0" * 32), headers=_bearer(site.other), json=DDI_BODY
        )
        assert nobody.status_code == foreign.status_code, "it cannot even tell whether the device exists"
    root = f"/releases/ddi/DEFAULT/controller/v1/{site.device_id}"
    assert web.get(root, headers=_bearer(site.device)).status_code == 200


def test_operations_of_devices_without_a_device_in_the_path_act_on_the_tokens_own(
    site: Site, web: httpx.Client
) -> None:
    before = web.get(f"/releases/v1/devices/{site.device_id}", headers=_bearer(site.operator)).json()
    body = {
        "tags": {"device_class": "npu-2t"},
        "running_digest": "f" * 96,
        "slot_stage": "confirmed",
        "state_epoch": 3,
        "device_id": site.device_id,
    }
    sent = web.post("/releases/v1/feedback", headers=_bearer(site.other), json=body)
    assert sent.status_code == 422, "a message that names a device is not one of ours"
    del body["device_id"]
    assert web.post("/releases/v1/feedback", headers=_bearer(site.other), json=body).status_code == 202
    after = web.get(f"/releases/v1/devices/{site.device_id}", headers=_bearer(site.operator)).json()
    assert {**after, "last_seen": None} == {**before, "last_seen": None}
    other = web.get(f"/releases/v1/devices/{site.other_id}", headers=_bearer(site.operator)).json()
    assert other["running_digest"] == "f" * 96


def test_a_gateway_speaks_for_its_own_devices_only(site: Site, web: httpx.Client, callers: list[Caller]) -> None:
    gateway = next(one for one in callers if one.name == "a gateway").token
    for operation in [one for one in scoped() if "{controller_id}" in one.path]:
        answer = web.request(operation.method, _of(operation, site), headers=_bearer(gateway), json=DDI_BODY)
        assert answer.status_code in (401, 404), f"{operation.method} {operation.path}: {answer.status_code}"
    own = f"/releases/ddi/DEFAULT/controller/v1/cam-{secrets.token_hex(4)}"
    assert web.get(own, headers=_bearer(gateway)).status_code == 200


def test_one_account_reaches_nothing_of_anothers(site: Site, web: httpx.Client) -> None:
    eve, bob = _sign_in(site, Role.OPERATOR), _sign_in(site, Role.OPERATOR)
    label = {"label": "mine", "scopes": [], "days": 1}
    made = web.post("/identity/v1/tokens", headers=_bearer(bob), json=label).json()
    session_id = web.get("/identity/v1/me", headers=_bearer(bob)).json()["session"]
    token_id = made["token"].split("_")[1]
    for path in (f"/identity/v1/sessions/{session_id}", f"/identity/v1/tokens/{token_id}"):
        assert web.delete(path, headers=_bearer(eve)).status_code == 404
    listed = web.get("/identity/v1/sessions", headers=_bearer(eve)).text
    listed += web.get("/identity/v1/tokens", headers=_bearer(eve)).text
    assert session_id not in listed
    assert token_id not in listed
    assert web.get("/identity/v1/me", headers=_bearer(bob)).status_code == 200
    assert web.get("/identity/v1/me", headers=_bearer(made["token"])).status_code == 200


def _sign_in(site: Site, role: Role) -> str:
    name = f"{role.value}-{secrets.token_hex(3)}"
    body = {"name": name, "role": role.value, "password": PASSWORD}
    assert site.request("POST", "/identity/v1/accounts", site.operator, json=body).status_code == 201
    answer = site.request("POST", "/identity/v1/sessions", json={"name": name, "password": PASSWORD})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["token"])


def _ask(web: httpx.Client, operation: Operation, caller: Caller) -> tuple[int, str]:
    """Status and slug; a refusal by another slug than the guards' is a rule of the service behind them."""
    headers = _bearer(caller.token) if caller.token else {}
    answer = web.request(operation.method, _path(operation), headers=headers, json={})
    if answer.headers.get("content-type") != MEDIA_TYPE:
        return answer.status_code, ""
    return answer.status_code, str(answer.json()["type"]).rsplit("/", 1)[1]


def _special(operation: Operation, caller: Caller) -> bool:
    """Refusals that are about who asks and not about a scope: DDI paths name another device than the token's."""
    if "{controller_id}" in operation.path:
        return caller.kind == "device"
    return (operation.method, operation.path) in SPECIAL and caller.kind != "device"


def _path(operation: Operation) -> str:
    return operation.path.replace("{path:path}", "x").replace("{", "").replace("}", "")


def _of(operation: Operation, site: Site) -> str:
    path = operation.path
    for name in ("tenant", "controller_id", "action_id", "module_id"):
        path = path.replace(f"{{{name}}}", site.known[name][0])
    return path.replace("{filename}", "x")


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
