"""Flow runs through the API: read with one scope, retried with another, and a clear word while Prefect is away."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import text

from services.kit.database import transaction
from services.kit.pages import encode_cursor
from services.kit.settings import settings
from tests.drift.prefect_twin import PrefectTwin
from tests.support.http import ApiClient, LiveServer
from tests.support.platform import Tokens

BASE = "/drift/v1/flow-runs"
START = datetime(2026, 11, 29, 3, 30, tzinfo=UTC)
WHY = {"reason": "the disk was emptied"}


@pytest.fixture
def twin() -> PrefectTwin:
    """Seven runs: the newest failed, the one before completed."""
    made = PrefectTwin()
    for number in range(7):
        run_id = str(uuid4())
        state = "FAILED" if number == 6 else "COMPLETED"
        made.runs[run_id] = {
            "id": run_id,
            "name": f"run-{number}",
            "state_type": state,
            "state_name": state.title(),
            "state": {"message": "disk full" if state == "FAILED" else None, "type": state},
            "expected_start_time": (START + timedelta(hours=number)).isoformat(),
            "start_time": (START + timedelta(hours=number)).isoformat(),
            "end_time": None,
            "total_run_time": 61.5,
            "run_count": 1,
            "deployment_id": made.deployments["retrain/retrain"],
            "parameters": {"alarm_id": "al-1", "budget_minutes": None},
            "tags": ["drift"],
            "something_new": {"of": "Prefect"},
        }
    return made


@pytest.fixture(autouse=True)
def _prefect(twin: PrefectTwin, client: ApiClient) -> Iterator[None]:
    with LiveServer(twin.app()) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGELOOP_PREFECT_API_URL", f"{server.url}/api")
        settings.cache_clear()
        yield
    settings.cache_clear()


def newest(twin: PrefectTwin) -> str:
    return list(twin.runs)[-1]


def test_runs_are_listed_newest_first_in_pages(client: ApiClient, tokens: Tokens) -> None:
    names: list[str] = []
    cursor = None
    while True:
        params = {"limit": 3} | ({"cursor": cursor} if cursor else {})
        page = client.get(BASE, token=tokens.operator, params=params).json()
        names += [run["name"] for run in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert names == [f"run-{number}" for number in reversed(range(7))]
    first = client.get(BASE, token=tokens.operator).json()["items"][0]
    assert (first["state"], first["message"], first["alarm"]) == ("failed", "disk full", "al-1")
    assert (first["retryable"], first["run_s"], first["ended"]) == (True, 61.5, None)


@pytest.mark.parametrize("key", [("x",), (-1,), (10**9,), (1, 2), (), (True,)])
def test_a_cursor_of_another_list_is_refused(client: ApiClient, tokens: Tokens, key: tuple[object, ...]) -> None:
    cursor = encode_cursor(*key)  # type: ignore[arg-type]
    assert client.get(BASE, token=tokens.operator, params={"cursor": cursor}).status_code == 422


def test_one_run_has_its_lines_in_order_and_no_debugging(client: ApiClient, tokens: Tokens, twin: PrefectTwin) -> None:
    run_id = newest(twin)
    told = ((10, "noise"), (20, "collect 100 %"), (20, "search 40 %"), (40, "step train failed"))
    for second, (level, message) in enumerate(told):
        moment = (START + timedelta(seconds=second)).isoformat()
        line = {"flow_run_id": run_id, "level": level, "message": message, "timestamp": moment}
        twin.lines.append({**line, "name": "prefect.flow_runs", "id": str(uuid4())})
    run = client.get(f"{BASE}/{run_id}", token=tokens.operator).json()
    assert [(line["level"], line["text"]) for line in run["lines"]] == [
        ("info", "collect 100 %"),
        ("info", "search 40 %"),
        ("error", "step train failed"),
    ]
    assert client.get(f"{BASE}/{uuid4()}", token=tokens.operator).status_code == 404
    assert client.get(f"{BASE}/..%2Fadmin", token=tokens.operator).status_code in (404, 422)
    assert client.get(f"{BASE}/admin", token=tokens.operator).status_code == 422


def test_a_failed_run_is_asked_for_again_with_its_reason_in_the_trail(
    client: ApiClient, tokens: Tokens, twin: PrefectTwin
) -> None:
    run_id = newest(twin)
    path = f"{BASE}/{run_id}/retry"
    assert client.post(path, token=tokens.operator, json={"reason": ""}).status_code == 422
    assert client.post(path, token=tokens.make("operator", "eve", ["drift:read"]), json=WHY).status_code == 403
    assert twin.runs[run_id]["state_type"] == "FAILED"
    again = client.post(path, token=tokens.operator, json=WHY)
    assert again.json()["state"] == "scheduled"
    assert twin.runs[run_id]["state_name"] == "AwaitingRetry"
    with transaction() as session:
        rows = session.execute(text("SELECT detail FROM kit.audit WHERE action = 'flow.retry'")).scalars().all()
    assert rows[-1]["reason"] == WHY["reason"]
    second = client.post(path, token=tokens.operator, json=WHY)
    assert second.status_code == 409
    assert "only a failed one" in second.json()["detail"]


def test_what_prefect_does_not_allow_is_said_with_its_reason(
    client: ApiClient, tokens: Tokens, twin: PrefectTwin
) -> None:
    run_id = newest(twin)
    twin.stubborn = "This flow run cannot be run because its deployment was deleted"
    refused = client.post(f"{BASE}/{run_id}/retry", token=tokens.operator, json=WHY)
    assert refused.status_code == 409
    assert "deployment was deleted" in refused.json()["detail"]
    twin.runs[run_id]["deployment_id"] = None
    assert client.get(f"{BASE}/{run_id}", token=tokens.operator).json()["retryable"] is False
    orphan = client.post(f"{BASE}/{run_id}/retry", token=tokens.operator, json=WHY)
    assert "no deployment" in orphan.json()["detail"]


def test_while_prefect_is_away_or_talks_nonsense_the_answer_is_503_with_the_reason(
    client: ApiClient, tokens: Tokens, twin: PrefectTwin
) -> None:
    run_id = newest(twin)
    calls = ((client.get, BASE, {}), (client.get, f"{BASE}/{run_id}", {}), (client.post, f"{BASE}/{run_id}/retry", WHY))
    twin.down = True
    for call, path, body in calls:
        answer = call(path, token=tokens.operator, **({"json": body} if body else {}))
        assert answer.status_code == 503, path
        assert "Prefect answered 503" in answer.json()["detail"]
    twin.down = False
    twin.runs[run_id]["start_time"] = "yesterday"
    nonsense = client.get(BASE, token=tokens.operator)
    assert nonsense.status_code == 503
    assert "something else" in nonsense.json()["detail"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGELOOP_PREFECT_API_URL", "http://127.0.0.1:9/api")
        settings.cache_clear()
        gone = client.get(BASE, token=tokens.operator)
        assert gone.status_code == 503
        assert "is it running?" in gone.json()["detail"]
