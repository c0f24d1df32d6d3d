"""Runs of a killed server go on with the next one."""

from __future__ import annotations

import json

import httpx
import pytest

from flows.orphans import PrefectSilent, take_up


class Prefect:
    """Answers as Prefect 3.9 does for the two routes."""

    def __init__(self, down_for: int = 0) -> None:
        self.states: dict[str, dict[str, object]] = {}
        self.asked: list[dict[str, object]] = []
        self._down = down_for

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if self._down > 0:
            self._down -= 1
            raise httpx.ConnectError("refused", request=request)
        body = json.loads(request.content)
        if request.url.path == "/api/flow_runs/filter":
            self.asked.append(body)
            return httpx.Response(200, json=[{"id": "run-1"}, {"id": "run-2"}])
        run = request.url.path.split("/")[3]
        self.states[run] = body
        status = "ACCEPT" if run == "run-1" else "ABORT"
        return httpx.Response(201, json={"status": status, "state": body["state"], "details": {}})


def test_a_run_that_was_left_is_scheduled_again_and_one_that_ended_is_not() -> None:
    prefect = Prefect()
    assert take_up("http://prefect/api", "retrain", httpx.MockTransport(prefect)) == ["run-1"]
    (asked,) = prefect.asked
    assert asked["deployments"] == {"name": {"any_": ["retrain"]}}
    assert asked["flow_runs"] == {"state": {"type": {"any_": ["RUNNING", "PENDING"]}}}
    state = prefect.states["run-1"]["state"]
    assert isinstance(state, dict)
    assert (state["type"], state["name"]) == ("SCHEDULED", "AwaitingRetry")
    assert prefect.states["run-1"]["force"] is True


def test_prefect_may_come_up_later() -> None:
    pauses: list[float] = []
    assert take_up("http://prefect/api", "retrain", httpx.MockTransport(Prefect(3)), sleep=pauses.append) == ["run-1"]
    assert len(pauses) == 3


def test_prefect_that_stays_away_is_named() -> None:
    with pytest.raises(PrefectSilent, match=r"http://prefect/api .*PREFECT_API_URL"):
        take_up("http://prefect/api", "retrain", httpx.MockTransport(Prefect(99)), patience_s=0.0)
