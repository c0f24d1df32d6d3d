"""Joining: tokens with uses and an end, one identity a key, no hint to a stranger."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from contracts.state import public_key, verify_state
from services.kit.database import transaction
from tests.releases.world import World, enrolment

TAGS = {"device_class": "npu-4t"}
PATH = "/releases/v1/enrolments"


def test_a_device_joins_and_gets_identity_roots_and_a_token_that_works(world: World) -> None:
    answer = world.client.post(PATH, json=enrolment(world.enrolment_token(), TAGS))
    assert answer.status_code == 201
    body = answer.json()
    assert json.loads(body["tuf_root"])["signed"]["_type"] == "root"
    document = world.client.get("/releases/v1/state", token=body["access_token"])
    assert verify_state(document.content, public_key(body["state_key"]), 0).killed is False


def test_a_wrong_used_up_or_expired_token_lets_nobody_in_and_does_not_say_why(world: World) -> None:
    used, expired = world.enrolment_token(uses=1), world.enrolment_token()
    assert world.client.post(PATH, json=enrolment(used, TAGS)).status_code == 201
    with transaction() as session:
        past = datetime.now(UTC) - timedelta(seconds=1)
        session.execute(
            text("UPDATE releases.enrolment_tokens SET expires_at = :past WHERE uses_left > 1"),
            {"past": past},
        )
    details = set()
    for token in ("a-token-nobody-ever-made", used, expired):
        answer = world.client.post(PATH, json=enrolment(token, TAGS))
        assert answer.status_code == 401
        assert answer.headers["content-type"] == "application/problem+json"
        details.add(answer.json()["detail"])
    assert len(details) == 1


def test_the_same_key_again_is_the_same_device_and_uses_nothing_up(world: World) -> None:
    request = enrolment(world.enrolment_token(uses=1), TAGS)
    first = world.client.post(PATH, json=request).json()
    again = world.client.post(PATH, json=request)
    assert again.status_code == 201
    assert again.json()["device_id"] == first["device_id"]
    assert world.client.get("/releases/v1/state", token=first["access_token"]).status_code == 401


def test_a_token_for_three_lets_in_three_also_when_ten_come_at_once(world: World) -> None:
    token = world.enrolment_token(uses=3)
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: world.client.post(PATH, json=enrolment(token, TAGS)).status_code, range(10)))
    assert answers.count(201) == 3
    assert answers.count(401) == 7


@pytest.mark.parametrize("key", ["A" * 43 + "!", "QUJD" * 11])
def test_a_key_that_is_none_is_refused(world: World, key: str) -> None:
    request = {**enrolment(world.enrolment_token(), TAGS), "public_key": key}
    answer = world.client.post(PATH, json=request)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/public_key"


def test_an_oversized_request_is_refused_before_it_is_read(world: World) -> None:
    answer = world.client.post(PATH, content=b"x" * 9_000, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413
