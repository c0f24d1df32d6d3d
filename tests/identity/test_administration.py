"""What an administrator does to accounts: one-time passwords, versions, unlocking, tokens of others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from services.identity.models import AccountRow
from services.kit.database import transaction
from tests.identity.conftest import GOOD, People
from tests.support.http import ApiClient


def _make(people: People, client: ApiClient, name: str, role: str = "operator") -> str:
    body = {"name": name, "role": role, "one_time": True, "reason": "joined us"}
    answer = client.post("/identity/v1/accounts", token=people.ruler, json=body)
    assert answer.status_code == 201, answer.text
    assert answer.json()["must_change"]
    assert len(answer.json()["one_time_password"]) >= 20
    return str(answer.json()["one_time_password"])


def test_a_one_time_password_opens_nothing_but_the_choice_of_another(people: People, client: ApiClient) -> None:
    once = _make(people, client, "fresh")
    began = people.sign_in("fresh", once)
    assert began["must_change"]
    assert began["scopes"] == []
    token = began["token"]
    assert people.me(token).json()["must_change"]
    assert client.get("/drift/v1/cohorts", token=token).status_code == 403
    assert client.post("/identity/v1/tokens", token=token, json={"label": "sly"}).status_code == 403
    chosen = client.post("/identity/v1/password", token=token, json={"current": once, "new": GOOD})
    assert chosen.status_code == 201
    assert not chosen.json()["must_change"]
    assert "drift:write" in chosen.json()["scopes"]
    assert not people.me(chosen.json()["token"]).json()["must_change"]
    assert people.me(token).status_code == 401
    wrong = client.post("/identity/v1/sessions", json={"name": "fresh", "password": once})
    assert wrong.status_code == 401


def test_a_one_time_password_that_nobody_used_is_worth_nothing_in_time(people: People, client: ApiClient) -> None:
    once = _make(people, client, "late")
    with transaction() as session:
        session.get_one(AccountRow, "late").password_until = datetime.now(UTC) - timedelta(seconds=1)
    answer = client.post("/identity/v1/sessions", json={"name": "late", "password": once})
    assert answer.status_code == 401
    changed = people.change("late", one_time=True).json()
    assert changed["one_time_password"] != once
    assert people.sign_in("late", changed["one_time_password"])["must_change"]


def test_a_one_time_password_is_told_once_and_kept_as_a_hash(people: People, client: ApiClient) -> None:
    once = _make(people, client, "quiet")
    assert once not in client.get("/identity/v1/accounts/quiet", token=people.ruler).text
    assert once not in client.get("/identity/v1/accounts", token=people.ruler, params={"limit": 200}).text
    assert once not in client.get("/releases/v1/audit", token=people.ruler, params={"subject": "account:quiet"}).text
    with transaction() as session:
        assert (session.get_one(AccountRow, "quiet").password_hash or "").startswith("$argon2id$")
    both = {"name": "both", "role": "viewer", "one_time": True, "password": GOOD}
    assert client.post("/identity/v1/accounts", token=people.ruler, json=both).status_code == 422


def test_two_administrators_do_not_undo_each_other(people: People, client: ApiClient) -> None:
    people.add("shared", "viewer")
    path = "/identity/v1/accounts/shared"
    seen = client.get(path, token=people.ruler)
    assert seen.headers["ETag"] == '"1"'
    body = {"role": "operator", "reason": "on the rota"}
    match = {"If-Match": seen.headers["ETag"]}
    first = client.request("PATCH", path, token=people.ruler, json=body, headers=match)
    assert first.status_code == 200
    assert first.headers["ETag"] == '"2"'
    late = client.request("PATCH", path, token=people.ruler, json={**body, "role": "admin"}, headers=match)
    assert late.status_code == 412
    assert late.json()["type"] == "/problems/stale-account"
    assert client.get(path, token=people.ruler).json()["role"] == "operator"
    foreign = client.request("PATCH", path, token=people.ruler, json=body, headers={"If-Match": "soon"})
    assert foreign.status_code == 422
    assert people.change("shared", role="viewer").status_code == 200, "without If-Match, as before"


def test_an_unlocked_account_may_try_again_at_once_and_keeps_its_sessions(people: People, client: ApiClient) -> None:
    token = people.enter("clumsy", "viewer")
    wrong = {"name": "clumsy", "password": "not-this-one"}
    statuses = [client.post("/identity/v1/sessions", json=wrong).status_code for _ in range(7)]
    assert statuses[-1] == 429
    path = "/identity/v1/accounts/clumsy"
    assert client.get(path, token=people.ruler).json()["locked_until"] is not None
    unlocked = client.post(f"{path}/unlock", token=people.ruler, json={"reason": "wrong keyboard"})
    assert unlocked.status_code == 200
    assert unlocked.json()["locked_until"] is None
    assert people.sign_in("clumsy")
    assert people.me(token).status_code == 200
    trail = client.get("/releases/v1/audit", token=people.ruler, params={"subject": "account:clumsy"}).json()["items"]
    (entry,) = [item for item in trail if item["action"] == "account.unlocked"]
    assert entry["detail"]["reason"] == "wrong keyboard"
    assert entry["detail"]["failures"] >= 5
    assert client.post(f"{path}/unlock", token=people.ruler, json={"reason": "x"}).status_code == 422
    missing = client.post("/identity/v1/accounts/ghost/unlock", token=people.ruler, json={"reason": "look"})
    assert missing.status_code == 404


def test_a_token_of_somebody_is_seen_and_revoked_by_an_administrator_only(people: People, client: ApiClient) -> None:
    mine, other = people.enter("maker", "viewer"), people.enter("plain", "releaser")
    made = client.post("/identity/v1/tokens", token=mine, json={"label": "nightly"}).json()
    path = "/identity/v1/accounts/maker"
    seen = client.get(path, token=people.ruler).json()
    assert [one["label"] for one in seen["api_tokens"]] == ["nightly"]
    assert seen["tokens"] == seen["sessions"] == 1
    assert made["token"] not in client.get(path, token=people.ruler).text
    revoke, why = f"{path}/tokens/{made['id']}/revoke", {"reason": "found in a log"}
    assert client.get(path, token=other).status_code == 403
    assert client.post(revoke, token=other, json=why).status_code == 403
    assert client.post(revoke.replace("maker", "plain"), token=people.ruler, json=why).status_code == 404
    assert client.get("/drift/v1/cohorts", token=made["token"]).status_code == 200
    assert client.post(revoke, token=people.ruler, json=why).status_code == 200
    assert client.get("/drift/v1/cohorts", token=made["token"]).status_code == 401
    trail = client.get("/releases/v1/audit", token=people.ruler, params={"subject": f"token:{made['id']}"}).json()
    detail = trail["items"][0]["detail"]
    assert (detail["account"], detail["reason"]) == ("maker", "found in a log")
