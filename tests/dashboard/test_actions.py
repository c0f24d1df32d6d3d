"""Buttons that change something: what they say, what they ask, and what they refuse."""

from __future__ import annotations

import re

import httpx
import pytest

from contracts.wire import RolloutState
from services.dashboard.sessions import COOKIE
from tests.dashboard.twin import TOKEN, Twin


def _form(client: httpx.Client, path: str) -> dict[str, str]:
    """The hidden fields of the page's main form."""
    text = client.get(path).text.split("<main", 1)[1]
    return dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', text))


@pytest.mark.parametrize(
    ("verb", "before", "after"),
    [
        ("start", RolloutState.DRAFT, RolloutState.RUNNING),
        ("start", RolloutState.APPROVED, RolloutState.RUNNING),
        ("approve", RolloutState.DRAFT, RolloutState.APPROVED),
        ("reject", RolloutState.DRAFT, RolloutState.KILLED),
        ("rollback", RolloutState.COMPLETED, RolloutState.ROLLED_BACK),
        ("pause", RolloutState.RUNNING, RolloutState.PAUSED),
        ("resume", RolloutState.PAUSED, RolloutState.RUNNING),
        ("rollback", RolloutState.RUNNING, RolloutState.ROLLED_BACK),
    ],
)
def test_an_action_goes_through_its_confirm_page(
    operator: httpx.Client, twin: Twin, verb: str, before: RolloutState, after: RolloutState
) -> None:
    twin.rollouts["r-2"] = twin.rollouts["r-2"].model_copy(update={"state": before})
    path = f"/console/rollouts/r-2/{verb}"
    form = _form(operator, path)
    assert form["version"] == "4"
    answer = operator.post(path, data={**form, "reason": "complaints from the field"})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/console/rollouts/r-2"
    assert twin.rollouts["r-2"].state is after
    assert twin.sent == [(verb, "complaints from the field")]


def test_the_confirm_page_says_how_many_devices_it_concerns(operator: httpx.Client) -> None:
    text = operator.get("/console/rollouts/r-2/rollback").text
    assert "60 devices now: 52 have the bundle, 47 confirmed it" in text


def test_a_rollout_that_moved_on_is_left_alone(operator: httpx.Client, twin: Twin) -> None:
    path = "/console/rollouts/r-2/pause"
    form = _form(operator, path)
    twin.rollouts["r-2"] = twin.rollouts["r-2"].model_copy(update={"version": 5})
    answer = operator.post(path, data={**form, "reason": "too late"})
    assert answer.status_code == 412
    assert "moved on since you looked" in answer.text
    assert twin.sent == []


def test_no_reason_no_action(operator: httpx.Client, twin: Twin) -> None:
    path = "/console/rollouts/r-2/pause"
    answer = operator.post(path, data={**_form(operator, path), "reason": "  "})
    assert answer.status_code == 422
    assert "Say why" in answer.text
    assert twin.sent == []


def test_an_action_that_the_state_forbids_shows_no_button(operator: httpx.Client) -> None:
    text = operator.get("/console/rollouts/r-1/resume").text
    assert "cannot be changed" in text
    assert "<textarea" not in text


def test_an_unknown_verb_is_404(operator: httpx.Client, twin: Twin) -> None:
    assert operator.get("/console/rollouts/r-2/promote").status_code == 404
    form = _form(operator, "/console/rollouts/r-2/pause")
    assert operator.post("/console/rollouts/r-2/promote", data={**form, "reason": "try it"}).status_code == 404
    assert twin.sent == []


@pytest.mark.parametrize("damage", ["no token", "other token", "other site", "no origin", "other origin"])
def test_a_form_that_is_not_ours_does_nothing(operator: httpx.Client, twin: Twin, damage: str) -> None:
    path = "/console/rollouts/r-2/pause"
    form = {**_form(operator, path), "reason": "looks right"}
    headers: dict[str, str] = {}
    if damage == "no token":
        del form["csrf"]
    elif damage == "other token":
        form["csrf"] = "x" * 43
    elif damage == "other site":
        headers["Sec-Fetch-Site"] = "cross-site"
    elif damage == "other origin":
        headers["Origin"] = "https://evil.example"
    else:
        del operator.headers["Origin"]
    answer = operator.post(path, data=form, headers=headers)
    assert answer.status_code == 403
    assert "Nothing was done" in answer.text
    assert twin.sent == []


def test_the_kill_switch_wants_the_word(operator: httpx.Client, twin: Twin) -> None:
    form = {**_form(operator, "/console/kill-switch"), "reason": "smoke", "killed": "true"}
    assert operator.post("/console/kill-switch", data=form).status_code == 422
    assert not twin.killed
    answer = operator.post("/console/kill-switch", data={**form, "word": "Stop"})
    assert answer.status_code == 200
    assert twin.killed
    again = operator.post("/console/kill-switch", data={**form, "killed": "false", "reason": "all clear"})
    assert again.status_code == 200
    assert twin.sent == [("kill", "smoke"), ("kill", "all clear")]


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(visitor: httpx.Client) -> None:
    cookie = visitor.post("/login", data={"token": TOKEN}).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie


def test_a_login_form_from_another_site_is_refused(visitor: httpx.Client) -> None:
    answer = visitor.post("/login", data={"token": TOKEN}, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403


def test_an_old_cookie_is_worthless_after_log_out(operator: httpx.Client) -> None:
    old = operator.cookies[COOKIE]
    text = operator.get("/").text
    csrf = re.search(r'name="csrf" value="([^"]+)"', text)
    assert csrf is not None
    assert operator.post("/logout", data={"csrf": csrf.group(1)}).status_code == 303
    operator.cookies.set(COOKIE, old)
    assert operator.get("/").status_code == 303


def test_a_new_login_ends_the_old_session(operator: httpx.Client) -> None:
    old = operator.cookies[COOKIE]
    assert operator.post("/login", data={"token": TOKEN}).status_code == 303
    assert operator.cookies[COOKIE] != old
    operator.cookies.set(COOKIE, old)
    assert operator.get("/").status_code == 303


def test_an_oversized_form_is_413(operator: httpx.Client, twin: Twin) -> None:
    path = "/console/rollouts/r-2/pause"
    form = {**_form(operator, path), "reason": "x" * 20_000}
    assert operator.post(path, data=form).status_code == 413
    assert twin.sent == []
