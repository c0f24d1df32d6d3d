"""Whoever watches may stop: `releases:halt` pauses, rolls back and kills; going on needs `releases:write`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services.kit.auth import SCOPES, Subject, allows
from tests.identity.conftest import People
from tests.support.http import ApiClient
from tests.support.platform import Tokens

KILL = "/releases/v1/kill-switch"
STOP = {"killed": True, "reason": "smoke in the lab"}


@pytest.fixture(autouse=True)
def allowed_again(client: ApiClient, tokens: Tokens) -> Iterator[None]:
    """The fleet runs before and after."""
    yield
    client.post(KILL, token=tokens.operator, json={"killed": False, "reason": "the test is over"})


def test_an_operator_stops_the_fleet_and_cannot_allow_it_again(people: People, client: ApiClient) -> None:
    token = people.enter("halt-operator", "operator")
    assert client.post(KILL, token=token, json=STOP).json()["killed"] is True
    again = client.post(KILL, token=token, json={"killed": False, "reason": "it was nothing"})
    assert again.status_code == 403
    assert "releases:write" in again.json()["detail"]
    assert client.get(KILL, token=token).json()["killed"] is True


def test_an_operator_pauses_and_rolls_back_and_a_viewer_does_not(people: People, client: ApiClient) -> None:
    operator, viewer = people.enter("halt-pauses", "operator"), people.enter("halt-looks", "viewer")
    body = {"reason": "smoke in the lab"}
    for verb, status in (("pause", 404), ("rollback", 404), ("resume", 403), ("start", 403), ("approve", 403)):
        path = f"/releases/v1/rollouts/none/{verb}"
        assert client.post(path, token=operator, json=body).status_code == status, verb
        assert client.post(path, token=viewer, json=body).status_code == 403, verb
    assert client.post(KILL, token=viewer, json=STOP).status_code == 403


def test_a_token_of_before_the_scope_that_may_release_may_stop(client: ApiClient, tokens: Tokens) -> None:
    token = tokens.make("operator", "old-hand", ["releases:write", "releases:read"])
    assert client.post(KILL, token=token, json=STOP).status_code == 200
    halting = tokens.make("service", "pager", ["releases:halt"])
    assert client.post(KILL, token=halting, json=STOP).status_code == 200
    assert client.get(KILL, token=halting).status_code == 403


def test_no_other_scope_is_held_by_another() -> None:
    for scope in SCOPES:
        wider = {held for held in SCOPES if allows({held}, scope)}
        assert wider == ({scope, "releases:write"} if scope == "releases:halt" else {scope})
    assert not Subject("operator", "x", frozenset({"releases:halt"}), "t").may("releases:write")
