"""The client tries again when that is safe, and says what a service refused."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from services.kit import clients
from services.kit.clients import ServiceClient, ServiceRefused, ServiceUnreachable

Answer = Callable[[httpx.Request], httpx.Response]


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    taken: list[float] = []
    monkeypatch.setattr(clients.time, "sleep", taken.append)
    return taken


def client(*answers: httpx.Response | Exception) -> tuple[ServiceClient, list[httpx.Request]]:
    left, seen = list(answers), []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        given = left.pop(0)
        if isinstance(given, Exception):
            raise given
        return given

    return ServiceClient("http://drift", "el_1_s", transport=httpx.MockTransport(answer)), seen


def test_it_sends_the_token_and_the_trace() -> None:
    caller, seen = client(httpx.Response(200, json={"items": []}))
    with caller:
        assert caller.get("/drift/v1/alarms", limit=5, cursor=None) == {"items": []}
    assert seen[0].headers["authorization"] == "Bearer el_1_s"
    assert seen[0].headers["traceparent"].startswith("00-")
    assert str(seen[0].url) == "http://drift/drift/v1/alarms?limit=5"


def test_a_busy_service_is_asked_again_after_the_time_it_named(pauses: list[float]) -> None:
    caller, _ = client(httpx.Response(503, headers={"Retry-After": "3"}), httpx.Response(200, json=1))
    assert caller.get("/x") == 1
    assert pauses == [3.0]


def test_a_get_without_an_answer_is_tried_again_a_few_times() -> None:
    caller, seen = client(*[httpx.ReadTimeout("slow")] * 4)
    with pytest.raises(ServiceUnreachable, match="GET /x"):
        caller.get("/x")
    assert len(seen) == 4


def test_a_post_that_may_have_arrived_is_not_sent_twice() -> None:
    caller, seen = client(httpx.ReadTimeout("slow"), httpx.Response(202))
    with pytest.raises(ServiceUnreachable):
        caller.post("/x", {})
    assert len(seen) == 1


def test_a_post_with_an_idempotency_key_is_tried_again() -> None:
    caller, seen = client(httpx.ReadTimeout("slow"), httpx.Response(202, json={"id": 1}))
    assert caller.post("/x", {}, idempotency_key="k") == {"id": 1}
    assert [request.headers["idempotency-key"] for request in seen] == ["k", "k"]


def test_a_refusal_carries_the_problem_document() -> None:
    caller, _ = client(httpx.Response(409, json={"title": "Conflict", "detail": "it is already so", "status": 409}))
    with pytest.raises(ServiceRefused, match="409: it is already so") as caught:
        caller.post("/x", {})
    assert (caught.value.status, caught.value.problem["title"]) == (409, "Conflict")


def test_an_answer_that_is_no_problem_document_is_still_a_refusal() -> None:
    caller, _ = client(httpx.Response(500, text="<html>"))
    with pytest.raises(ServiceRefused, match="500"):
        caller.post("/x", {})
