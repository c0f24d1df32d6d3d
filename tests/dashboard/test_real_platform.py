"""The page in front of the real services, empty and with a real build."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import httpx
import pytest
from argon2 import PasswordHasher, profiles

from services.identity import passwords
from tests.builds import support
from tests.builds.conftest import Studio
from tests.dashboard.twin.samples import SEARCH
from tests.support.http import ApiClient, LiveServer
from tests.support.models import quality_qdq, vsr_qdq
from tests.support.platform import Tokens


@pytest.fixture
def visitor(live_server: LiveServer) -> Iterator[httpx.Client]:
    """A browser without script, not logged in."""
    headers = {"Origin": live_server.url, "Sec-Fetch-Site": "same-origin"}
    with httpx.Client(base_url=live_server.url, headers=headers, trust_env=False, timeout=20) as made:
        yield made


def test_an_operator_sees_an_empty_platform_with_every_source_answering(visitor: httpx.Client, tokens: Tokens) -> None:
    assert visitor.post("/login", data={"token": tokens.operator}).status_code == 303
    text = visitor.get("/").text
    assert "do not answer" not in text
    for words in ("No device yet", "No rollout yet", "No build yet", "No alarm", "No cluster"):
        assert words in text
    assert visitor.get("/fragments/drift-figure").json()["data"] == []


def test_a_wrong_token_stays_outside_and_a_narrow_one_sees_what_it_may(visitor: httpx.Client, tokens: Tokens) -> None:
    assert visitor.post("/login", data={"token": "el_00_wrong"}).status_code == 401
    assert visitor.post("/login", data={"token": tokens.device("d-1")}).status_code == 403
    narrow = tokens.make("operator", "eve", ["drift:read"])
    assert visitor.post("/login", data={"token": narrow}).status_code == 303
    text = visitor.get("/").text
    assert "does not allow this to you" in text
    assert "Kill switch" not in text


def test_a_token_that_is_revoked_later_ends_its_session(visitor: httpx.Client, tokens: Tokens) -> None:
    from services.kit.auth import revoke
    from services.kit.database import transaction

    assert visitor.post("/login", data={"token": tokens.make("operator", "mallory")}).status_code == 303
    assert visitor.get("/").status_code == 200
    with transaction() as session:
        revoke(session, "operator", "mallory")
    assert visitor.get("/").status_code == 303


def test_the_kill_switch_reaches_the_fleet_and_the_audit_trail(
    visitor: httpx.Client, client: ApiClient, tokens: Tokens
) -> None:
    visitor.post("/login", data={"token": tokens.operator})
    csrf = re.search(r'name="csrf" value="([^"]+)"', visitor.get("/console/kill-switch").text)
    assert csrf is not None
    form = {"csrf": csrf.group(1), "reason": "smoke in the lab", "killed": "true", "word": "stop"}
    assert visitor.post("/console/kill-switch", data=form).status_code == 200
    assert "The kill switch is on" in visitor.get("/").text
    assert "smoke in the lab" in client.get("/releases/v1/audit", token=tokens.operator).text
    visitor.post("/console/kill-switch", data={**form, "killed": "false"})
    assert "The kill switch is on" not in visitor.get("/").text


def test_a_real_build_is_read_down_to_its_checks(visitor: httpx.Client, client: ApiClient, tokens: Tokens) -> None:
    model = vsr_qdq(channels=8, mid=8, blocks=1)
    studio = Studio(client, tokens.service, model, quality_qdq(), support.observer_npz())
    studio.add_set(support.model_set(model))
    meta: dict[str, object] = {"name": "vsr-seen", "float_psnr": {"normal": 100.0}}
    meta["search"] = json.loads(SEARCH.read_text())
    build = studio.build(meta, model=support.with_broken_calibration(model))
    visitor.post("/login", data={"token": tokens.operator})
    assert "vsr-seen" in visitor.get("/").text
    text = visitor.get(f"/console/builds/{build['id']}").text
    assert "quantisation.drop@npu-4t/48x64/normal" in text
    assert "does not fit the activations" in text
    text = visitor.get(f"/console/models/{build['id']}").text
    assert "57 of 1,728 networks were judged" in text
    assert len(visitor.get(f"/fragments/search-figure/{build['id']}").json()["data"]) == 3
    text = visitor.get("/console/settings").text
    assert f"build {build['id']}" in text.split("History of gate")[1]


def test_somebody_is_let_in_by_an_administrator_and_chooses_a_password(
    visitor: httpx.Client, client: ApiClient, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passwords, "HASHER", PasswordHasher.from_parameters(profiles.CHEAPEST))

    def form(path: str) -> dict[str, str]:
        text = visitor.get(path).text.split("<main", 1)[1]
        return dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', text))

    visitor.post("/login", data={"token": tokens.operator})
    made = visitor.post(
        "/console/new-account",
        data={**form("/console/new-account"), "name": "cy", "role": "operator", "reason": "joined us"},
    )
    assert made.status_code == 201
    found = re.search(r'id="one-time">([^<]+)<', made.text)
    assert found is not None
    path = "/console/accounts/cy/role"
    seen = form(path)
    changed = visitor.post(path, data={**seen, "role": "viewer", "reason": "not on the rota yet"})
    assert changed.status_code == 303
    late = visitor.post(path, data={**seen, "role": "admin", "reason": "too late"})
    assert late.status_code == 412
    trail = client.get("/releases/v1/audit", token=tokens.operator, params={"subject": "account:cy"}).json()["items"]
    reasons = {item["action"]: item["detail"].get("reason") for item in trail}
    assert reasons["account.created"] == "joined us"
    assert reasons["account.changed"] == "not on the rota yet"
    visitor.cookies.clear()
    assert visitor.post("/login", data={"name": "cy", "password": found.group(1)}).status_code == 303
    assert visitor.get("/console/devices").headers["location"] == "/console/account"
    words = {"current": found.group(1), "new": "a-long-phrase-of-mine", "again": "a-long-phrase-of-mine"}
    assert visitor.post("/console/account/password", data={**form("/console/account"), **words}).status_code == 303
    assert visitor.get("/console/devices").status_code == 200
    assert visitor.get("/console/accounts").status_code == 403
