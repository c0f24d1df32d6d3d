"""What every service inherits over HTTP: problems, transactions, pages, idempotency, tokens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from services.kit.auth import revoke
from services.kit.database import transaction
from services.kit.settings import Settings
from tests.kit.apps import small_app
from tests.support.http import ApiClient
from tests.support.platform import Tokens


@pytest.fixture(scope="module")
def small(platform: Settings) -> Iterator[ApiClient]:
    with transaction() as session:
        session.execute(text("CREATE SEQUENCE kit.orders"))
    with ApiClient(small_app()) as client:
        yield client


def slug(answer: object) -> str:
    return str(answer.json()["type"]).removeprefix("/problems/")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("path", "status", "name"),
    [("/small/conflict", 409, "conflict"), ("/small/none", 404, "http-404"), ("/small/full-disk", 507, "disk-full")],
)
def test_every_error_is_a_problem_document(small: ApiClient, path: str, status: int, name: str) -> None:
    answer = small.get(path)
    assert (answer.status_code, slug(answer)) == (status, name)
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_wrong_method_is_a_problem_document_that_names_the_right_ones(small: ApiClient) -> None:
    answer = small.delete("/small/conflict")
    assert (answer.status_code, slug(answer)) == (405, "http-405")
    assert "GET" in answer.headers["allow"]


def test_an_unexpected_failure_tells_nothing_but_its_trace_id(small: ApiClient) -> None:
    answer = small.get("/small/bug")
    assert (answer.status_code, slug(answer)) == (500, "internal")
    assert "secret detail" not in answer.text


def test_a_trace_begun_elsewhere_goes_on(small: ApiClient) -> None:
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    answer = small.get("/small/conflict", headers={"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"})
    assert answer.headers["x-trace-id"] == trace_id == answer.json()["trace_id"]


def test_a_commit_that_fails_is_an_error_and_never_a_lost_success(small: ApiClient) -> None:
    assert small.post("/small/late-failure").status_code == 500


def test_pages_lead_through_the_whole_list_once(small: ApiClient) -> None:
    seen: list[int] = []
    cursor: str | None = None
    while True:
        page = small.get("/small/numbers", params={"limit": 50} | ({"cursor": cursor} if cursor else {})).json()
        seen += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == list(range(120))


@pytest.mark.parametrize("query", ["cursor=%20", "cursor=bm90anNvbg", "cursor=e30", "limit=0", "limit=201", "limit=x"])
def test_a_wrong_page_request_is_malformed(small: ApiClient, query: str) -> None:
    assert small.get(f"/small/numbers?{query}").status_code == 422


def test_a_retry_with_the_same_key_gets_the_first_answer(small: ApiClient, tokens: Tokens) -> None:
    token = tokens.operator
    send = {"token": token, "headers": {"Idempotency-Key": "k1"}}
    first, second = (small.post("/small/orders", json={"amount": 1}, **send) for _ in range(2))
    assert first.status_code == second.status_code == 202
    assert first.json() == second.json()
    fresh = small.post("/small/orders", json={"amount": 1}, token=token, headers={"Idempotency-Key": "k2"})
    assert fresh.json() != first.json()


def test_a_key_used_for_another_body_is_refused(small: ApiClient, tokens: Tokens) -> None:
    send = {"token": tokens.operator, "headers": {"Idempotency-Key": "k3"}}
    small.post("/small/orders", json={"amount": 1}, **send)
    answer = small.post("/small/orders", json={"amount": 2}, **send)
    assert (answer.status_code, slug(answer)) == (422, "idempotency-key-reused")


def test_two_subjects_may_use_the_same_key(small: ApiClient, tokens: Tokens) -> None:
    mine, yours = tokens.make("operator", "anna"), tokens.make("operator", "ben")
    answers = [
        small.post("/small/orders", json={"amount": 1}, token=token, headers={"Idempotency-Key": "k4"})
        for token in (mine, yours)
    ]
    assert answers[0].json() != answers[1].json()


def test_a_body_over_the_service_s_own_limit_is_refused(small: ApiClient, tokens: Tokens) -> None:
    answer = small.post("/small/orders", content=b"{" + b" " * 200, token=tokens.operator)
    assert (answer.status_code, slug(answer)) == (413, "too-large")


def test_a_revoked_token_is_refused(small: ApiClient, tokens: Tokens) -> None:
    token = tokens.make("operator", "carol")
    assert small.get("/small/whoami", token=token).json() == {"subject": "operator:carol"}
    with transaction() as session:
        assert revoke(session, "operator", "carol") == 1
    assert small.get("/small/whoami", token=token).status_code == 401


def test_a_token_is_not_kept_in_clear(tokens: Tokens) -> None:
    token = tokens.make("operator", "dora")
    secret = token.split("_", 2)[2]
    with transaction() as session:
        rows = session.execute(text("SELECT t::text FROM kit.tokens t")).scalars().all()
    assert not any(secret in row or secret.encode().hex() in row for row in rows)
