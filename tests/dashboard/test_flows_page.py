"""*Flows*: runs with their state, one run with its steps, and a retry with its reason."""

from __future__ import annotations

import re

import httpx

from tests.dashboard.conftest import enter, form_of
from tests.dashboard.twin import EVIL, Twin

FAILED = "/console/flows/00000000-0000-0000-0000-000000000002"
DONE = "/console/flows/00000000-0000-0000-0000-000000000001"


def test_runs_are_listed_with_state_cause_and_alarm(visitor: httpx.Client) -> None:
    text = enter(visitor, "viewer").get("/console/flows").text
    for words in ("fast-otter-2", "failed", "disk full", "al-1", "63.3 min", "completed"):
        assert words in text, words


def test_a_run_shows_its_steps_and_only_who_may_can_retry_it(visitor: httpx.Client) -> None:
    text = enter(visitor, "viewer").get(FAILED).text
    assert "search 40 %" in text
    assert EVIL not in text
    assert "/retry" not in text
    assert visitor.get(FAILED + "/retry").status_code == 403
    csrf = re.findall(r'name="csrf" value="([^"]+)"', text)[0]
    refused = visitor.post(FAILED + "/retry", data={"csrf": csrf, "reason": "let me try"})
    assert refused.status_code == 403
    assert "drift:write" in refused.text
    assert "You may not do this" in refused.text
    enter(visitor, "operator")
    assert "/retry" in visitor.get(FAILED).text
    assert "/retry" not in visitor.get(DONE).text


def test_a_failed_run_is_retried_once_with_a_reason(visitor: httpx.Client, twin: Twin) -> None:
    enter(visitor, "operator")
    form = form_of(visitor, FAILED + "/retry")
    assert visitor.post(FAILED + "/retry", data={**form, "reason": " "}).status_code == 422
    assert twin.sent == []
    assert visitor.post(FAILED + "/retry", data={**form, "reason": "disk was emptied"}).status_code == 303
    assert twin.sent == [("retry", "disk was emptied")]
    assert "scheduled" in visitor.get(FAILED).text
    again = visitor.post(FAILED + "/retry", data={**form, "reason": "disk was emptied"})
    assert again.status_code == 409
    assert "Only a run that failed" in visitor.get(FAILED + "/retry").text


def test_a_flow_engine_that_is_down_says_so(visitor: httpx.Client, twin: Twin) -> None:
    enter(visitor, "operator")
    twin.down.add("/drift/v1/flow-runs")
    assert "No answer" in visitor.get("/console/flows").text
    assert visitor.get(FAILED).status_code == 503
    twin.down, twin.flows = set(), []
    assert "No run yet" in visitor.get("/console/flows").text
    assert visitor.get(FAILED).status_code == 404
