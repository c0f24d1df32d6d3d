"""Accounts and API tokens: who may make what, and that nobody makes more of themselves."""

from __future__ import annotations

import pytest

from services.identity.limits import TOKEN
from tests.identity.conftest import GOOD, People
from tests.support.http import ApiClient


def test_a_name_is_given_once(people: People, client: ApiClient) -> None:
    people.add("twice", "viewer")
    body = {"name": "twice", "role": "admin", "password": GOOD}
    assert client.post("/identity/v1/accounts", token=people.ruler, json=body).status_code == 409
    assert people.sign_in("twice")["scopes"] == sorted(people.sign_in("twice")["scopes"])


@pytest.mark.parametrize("name", ["", "a", "Upper", "with space", "../x", "embedded", "x" * 64, "-dash", "ü"])
def test_a_name_is_plain(people: People, client: ApiClient, name: str) -> None:
    body = {"name": name, "role": "viewer", "password": GOOD}
    assert client.post("/identity/v1/accounts", token=people.ruler, json=body).status_code in (409, 422)


def test_the_last_administrator_stays(people: People) -> None:
    people.add("only", "admin")
    for change in ({"disabled": True}, {"role": "viewer"}):
        assert people.change("only", **change).status_code == 409
    people.add("second", "admin")
    assert people.change("only", role="viewer").status_code == 200
    assert people.change("second", disabled=True).status_code == 409


def test_a_password_set_by_an_administrator_ends_sessions_and_locks(people: People, client: ApiClient) -> None:
    token = people.enter("forgetful", "viewer")
    for number in range(6):
        client.post("/identity/v1/sessions", json={"name": "forgetful", "password": f"guess-{number}"})
    assert people.change("forgetful", password="a-new-long-phrase").status_code == 200
    assert people.me(token).status_code == 401
    assert people.sign_in("forgetful", "a-new-long-phrase")


def test_nobody_gives_a_token_more_than_they_have(people: People, client: ApiClient) -> None:
    token = people.enter("greedy", "operator")
    body = {"label": "too much", "scopes": ["releases:write"]}
    assert client.post("/identity/v1/tokens", token=token, json=body).status_code == 403
    made = client.post("/identity/v1/tokens", token=token, json={"label": "all of mine"}).json()
    assert set(made["scopes"]) == set(people.me(token).json()["scopes"])


def test_a_token_makes_and_revokes_no_token(people: People, client: ApiClient) -> None:
    token = people.enter("scripted", "admin")
    made = client.post("/identity/v1/tokens", token=token, json={"label": "script"}).json()
    assert client.post("/identity/v1/tokens", token=made["token"], json={"label": "child"}).status_code == 403
    assert client.delete(f"/identity/v1/tokens/{made['id']}", token=made["token"]).status_code == 403
    body = {"current": GOOD, "new": "another-long-phrase"}
    assert client.post("/identity/v1/password", token=made["token"], json=body).status_code == 403
    path = f"/identity/v1/sessions/{token.split('_')[1]}"
    assert client.delete(path, token=made["token"]).status_code == 403
    assert people.me(token).status_code == 200


def test_tokens_of_others_are_out_of_sight_and_reach(people: People, client: ApiClient) -> None:
    mine, foreign = people.enter("holder", "viewer"), people.enter("thief", "admin")
    made = client.post("/identity/v1/tokens", token=mine, json={"label": "mine"}).json()
    assert made["id"] not in client.get("/identity/v1/tokens", token=foreign).text
    assert client.delete(f"/identity/v1/tokens/{made['id']}", token=foreign).status_code == 404
    listed = client.get("/identity/v1/tokens", token=mine)
    assert made["id"] in listed.text
    assert made["token"] not in listed.text
    assert client.delete(f"/identity/v1/tokens/{made['id']}", token=mine).status_code == 204
    assert client.get("/drift/v1/cohorts", token=made["token"]).status_code == 401


def test_an_account_has_a_bounded_number_of_tokens(people: People, client: ApiClient) -> None:
    token = people.enter("collector", "viewer")
    for number in range(TOKEN.each):
        assert client.post("/identity/v1/tokens", token=token, json={"label": f"t{number}"}).status_code == 201
    answer = client.post("/identity/v1/tokens", token=token, json={"label": "one more"})
    assert answer.status_code == 409
    assert "revoke one" in answer.json()["detail"]


def test_accounts_are_listed_by_pages(people: People, client: ApiClient) -> None:
    for number in range(5):
        people.add(f"page-{number}", "viewer")
    seen: list[str] = []
    cursor = None
    while True:
        params = {"limit": 2, **({"cursor": cursor} if cursor else {})}
        page = client.get("/identity/v1/accounts", token=people.ruler, params=params).json()
        seen += [item["name"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == sorted(seen)
    assert {f"page-{number}" for number in range(5)} <= set(seen)
    assert (
        client.request("PATCH", "/identity/v1/accounts/ghost", token=people.ruler, json={"reason": "look"}).status_code
        == 404
    )
