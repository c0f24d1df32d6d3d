"""Sessions: they end when they should, and what has ended opens nothing again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from services.identity.limits import SESSION
from services.identity.models import SessionRow
from services.kit.auth import revoke
from services.kit.database import transaction
from services.kit.models import Token
from tests.identity.conftest import GOOD, People
from tests.support.http import ApiClient
from tests.support.platform import Tokens

OPENED = "/releases/v1/rollouts"


def end(client: ApiClient, token: str, session_id: str = "current") -> int:
    return client.delete(f"/identity/v1/sessions/{session_id}", token=token).status_code


def test_a_session_that_ended_is_worthless_everywhere(people: People, client: ApiClient) -> None:
    token = people.enter("leaver", "operator")
    assert client.get(OPENED, token=token).status_code == 200
    assert end(client, token) == 204
    for path in (OPENED, "/drift/v1/cohorts", "/identity/v1/me", "/identity/v1/sessions"):
        assert client.get(path, token=token).status_code == 401
    assert end(client, token) == 401


def test_an_idle_session_ends_and_use_keeps_it_open(people: People, client: ApiClient) -> None:
    token = people.enter("idler", "viewer")
    token_id = token.split("_")[1]
    early = datetime.now(UTC) - timedelta(seconds=SESSION.idle_s / 2)
    with transaction() as session:
        session.get_one(SessionRow, token_id).seen_at = early
        session.get_one(Token, token_id).expires_at = early + timedelta(seconds=SESSION.idle_s)
    people.me(token, use=False)
    with transaction() as session:
        assert session.get_one(SessionRow, token_id).seen_at == early
    people.me(token, use=True)
    with transaction() as session:
        row = session.get_one(Token, token_id)
        assert row.expires_at is not None
        assert (row.expires_at - datetime.now(UTC)).total_seconds() > SESSION.idle_s - 60
        row.expires_at = datetime.now(UTC)
    assert client.get(OPENED, token=token).status_code == 401


def test_use_never_moves_a_session_past_its_longest_time(people: People, client: ApiClient) -> None:
    token = people.enter("stayer", "viewer")
    token_id = token.split("_")[1]
    ends = datetime.now(UTC) + timedelta(seconds=40)
    with transaction() as session:
        row = session.get_one(SessionRow, token_id)
        row.ends_at, row.seen_at = ends, datetime.now(UTC) - timedelta(hours=1)
    people.me(token, use=True)
    with transaction() as session:
        assert session.get_one(Token, token_id).expires_at == ends


def test_a_person_sees_and_ends_their_own_sessions_only(people: People, client: ApiClient) -> None:
    mine, other = people.enter("owner", "viewer"), people.sign_in("owner")["token"]
    foreign = people.enter("stranger", "viewer")
    listed = client.get("/identity/v1/sessions", token=mine).json()["items"]
    assert {item["id"] for item in listed} == {mine.split("_")[1], other.split("_")[1]}
    assert [item["current"] for item in listed].count(True) == 1
    assert end(client, foreign, mine.split("_")[1]) == 404
    assert end(client, mine, other.split("_")[1]) == 204
    assert client.get(OPENED, token=other).status_code == 401
    assert client.get(OPENED, token=mine).status_code == 200


def test_a_new_role_ends_every_session_and_tokens_that_would_allow_more(people: People, client: ApiClient) -> None:
    token = people.enter("climber", "releaser")
    wide = client.post("/identity/v1/tokens", token=token, json={"label": "wide"}).json()["token"]
    narrow_body = {"label": "narrow", "scopes": ["drift:read"]}
    narrow = client.post("/identity/v1/tokens", token=token, json=narrow_body).json()["token"]
    assert people.change("climber", role="viewer").status_code == 200
    assert client.get(OPENED, token=token).status_code == 401
    assert client.get(OPENED, token=wide).status_code == 401
    assert client.get("/drift/v1/cohorts", token=narrow).status_code == 200
    assert "releases:write" not in people.sign_in("climber")["scopes"]


def test_a_disabled_account_loses_sessions_and_tokens_at_once(people: People, client: ApiClient) -> None:
    token = people.enter("leaves", "operator")
    script = client.post("/identity/v1/tokens", token=token, json={"label": "script"}).json()["token"]
    assert people.change("leaves", disabled=True).status_code == 200
    assert client.get(OPENED, token=token).status_code == 401
    assert client.get(OPENED, token=script).status_code == 401
    assert people.change("leaves", disabled=False).status_code == 200
    assert client.get(OPENED, token=script).status_code == 401


def test_a_changed_password_ends_all_sessions_and_begins_a_new_one(people: People, client: ApiClient) -> None:
    first, second = people.enter("changer", "viewer"), people.sign_in("changer")["token"]
    wrong = {"current": "not-it-not-it", "new": "another-long-phrase"}
    assert client.post("/identity/v1/password", token=first, json=wrong).status_code == 401
    assert client.get(OPENED, token=second).status_code == 200
    right = {"current": GOOD, "new": "another-long-phrase"}
    answer = client.post("/identity/v1/password", token=first, json=right)
    assert answer.status_code == 201
    for old in (first, second):
        assert client.get(OPENED, token=old).status_code == 401
    assert client.get(OPENED, token=answer.json()["token"]).status_code == 200
    assert people.sign_in("changer", "another-long-phrase")


def test_a_session_from_a_token_allows_and_lasts_no_more_than_the_token(client: ApiClient, tokens: Tokens) -> None:
    narrow = tokens.make("operator", "eve", ["drift:read"], ttl_s=120)
    made = client.post("/identity/v1/token-sessions", token=narrow, json={}).json()
    assert made["scopes"] == ["drift:read"]
    assert datetime.fromisoformat(made["ends"]) <= datetime.now(UTC) + timedelta(seconds=120)
    assert client.get("/drift/v1/cohorts", token=made["token"]).status_code == 200
    assert client.get(OPENED, token=made["token"]).status_code == 403
    assert client.post("/identity/v1/token-sessions", token=made["token"], json={}).status_code == 403
    assert client.get("/identity/v1/tokens", token=made["token"]).status_code == 403


def test_sessions_of_a_revoked_token_end_with_it(people: People, client: ApiClient, tokens: Tokens) -> None:
    machine = tokens.make("operator", "machine")
    seen = client.post("/identity/v1/token-sessions", token=machine, json={}).json()["token"]
    with transaction() as session:
        revoke(session, "operator", "machine")
    assert client.get(OPENED, token=seen).status_code == 401
    person = people.enter("maker", "viewer")
    made = client.post("/identity/v1/tokens", token=person, json={"label": "for a wall"}).json()
    child = client.post("/identity/v1/token-sessions", token=made["token"], json={}).json()["token"]
    assert client.delete(f"/identity/v1/tokens/{made['id']}", token=person).status_code == 204
    assert client.get(OPENED, token=child).status_code == 401


def test_an_account_has_a_bounded_number_of_sessions_and_the_oldest_go(people: People, client: ApiClient) -> None:
    oldest = people.enter("many", "viewer")
    for _ in range(SESSION.each):
        newest = people.sign_in("many")["token"]
    assert client.get(OPENED, token=oldest).status_code == 401
    assert len(client.get("/identity/v1/sessions", token=newest).json()["items"]) == SESSION.each


def test_a_device_has_no_session(client: ApiClient, tokens: Tokens) -> None:
    for method, path in (("POST", "token-sessions"), ("GET", "me"), ("GET", "sessions"), ("GET", "tokens")):
        answer = client.request(method, f"/identity/v1/{path}", token=tokens.device("d-1"), json={})
        assert answer.status_code == 403


@pytest.mark.parametrize("token", ["", "el_", "el_x_y", "el_0123456789abcdef_" + "x" * 43])
def test_a_made_up_token_is_nobody(client: ApiClient, token: str) -> None:
    assert client.get("/identity/v1/me", token=token).status_code == 401
