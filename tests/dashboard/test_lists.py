"""Devices, audit, settings, releases: what they list, filter and change, and to whom."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.dashboard.conftest import enter, form_of
from tests.dashboard.twin import EVIL, PASSWORD, Twin

NEW_PAGES = (
    "/console/releases",
    "/console/devices",
    "/console/devices/d-7",
    "/console/audit",
    "/console/audit?check=true",
    "/console/settings",
    "/console/settings/change?name=z_threshold",
    "/console/drift",
    "/console/clusters",
    "/console/flows",
    "/console/flows/00000000-0000-0000-0000-000000000002",
    "/console/models",
    "/console/models/b-2",
    "/console/bundles",
    "/console/bundles/b-3",
    "/console/bundles/compare?build=b-3&build=b-1",
    "/console/clusters/c-1",
    "/console/drift/npu-4t/indoor-night",
    "/console/account",
)


@pytest.mark.parametrize("path", NEW_PAGES)
def test_a_page_needs_a_session_and_carries_the_strict_policy(visitor: httpx.Client, path: str) -> None:
    assert visitor.get(path).status_code == 303
    answer = enter(visitor, "admin").get(path)
    assert answer.status_code == 200
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert not re.search(r"<script(?![^>]*src=)|\sstyle=|\son[a-z]+=|<style", answer.text)
    assert EVIL not in answer.text


@pytest.mark.parametrize(
    ("path", "down"),
    [
        ("/console/releases", "/releases"),
        ("/console/devices", "/releases"),
        ("/console/audit?check=true", "/releases"),
        ("/console/settings", "/drift"),
    ],
)
def test_a_source_that_is_down_is_said_and_counts_as_unknown(
    visitor: httpx.Client, twin: Twin, path: str, down: str
) -> None:
    enter(visitor, "admin")
    twin.down.add(down)
    text = visitor.get(path).text
    assert "the database does not answer" in text
    assert "holds:" not in text


def test_devices_are_searched_and_paged(visitor: httpx.Client) -> None:
    enter(visitor, "viewer")
    first = visitor.get("/console/devices").text
    assert first.count('href="/console/devices/d-') == 50
    following = re.search(r'href="(/console/devices\?[^"]+)" rel="next"', first)
    assert following is not None
    second = visitor.get(following.group(1).replace("&amp;", "&")).text
    assert "d-50<" in second
    assert "First page" in second
    found = visitor.get("/console/devices", params={"q": "d-23", "device_class": "npu-4t"}).text
    assert set(re.findall(r'href="/console/devices/(d-\d+)"', found)) <= {"d-23", *(f"d-23{n}" for n in range(10))}
    assert 'value="d-23"' in found
    assert "No device is like that" in visitor.get("/console/devices", params={"q": "zzz"}).text


def test_devices_are_searched_by_a_rule_over_tags(visitor: httpx.Client) -> None:
    enter(visitor, "viewer")
    rule = 'device_class == "npu-4t" and not region in ("moon")'
    found = visitor.get("/console/devices", params={"rule": rule}).text
    assert 'href="/console/devices/d-' in found
    assert "npu-2t</td>" not in found
    assert "rule=device_class" in found, "the next page has the rule too"
    far = visitor.get("/console/devices", params={"rule": 'region == "moon"'}).text
    assert "the next page looks at more of the fleet" in far
    assert 'rel="next"' in far
    broken = visitor.get("/console/devices", params={"rule": "netwrk == 1"}).text
    assert "The rule cannot be read" in broken
    assert "netwrk" in broken
    assert "No answer." not in broken


def test_one_device_shows_what_it_runs_what_it_tried_and_when_it_reported(visitor: httpx.Client) -> None:
    text = enter(visitor, "viewer").get("/console/devices/d-8").text
    for words in ("b" * 96, "2026.11.3", "confirmed", "health/1", "0.1.0"):
        assert words in text
    missing = visitor.get("/console/devices/d-999999")
    assert missing.status_code == 404
    assert "no device d-999999 has joined" in missing.text
    assert visitor.get("/console/devices/..%2F..%2Fdrift").status_code == 404


def test_the_trail_is_filtered_paged_and_its_chain_checked_on_wish(visitor: httpx.Client, twin: Twin) -> None:
    enter(visitor, "operator")
    text = visitor.get("/console/audit").text
    assert text.count("<tr>") == 51
    assert "hash chain holds" not in text
    filtered = visitor.get("/console/audit", params={"actor": "operator:ada", "action": "kill-switch"}).text
    assert "operator:bo" not in filtered
    assert "rollout.paused" not in filtered
    assert "The hash chain holds: 120 entries" in visitor.get("/console/audit?check=true").text
    twin.tampered = "entry 7 (rollout.paused) is not what was written"
    assert "The trail was changed" in visitor.get("/console/audit?check=true").text


def test_a_viewer_has_no_audit_page_and_is_told_which_right_it_takes(visitor: httpx.Client) -> None:
    enter(visitor, "viewer")
    assert 'href="/console/audit"' not in visitor.get("/").text
    answer = visitor.get("/console/audit")
    assert answer.status_code == 403
    assert "audit:read" in answer.text


def test_a_threshold_is_changed_for_a_class_with_a_reason_and_keeps_its_others(
    visitor: httpx.Client, twin: Twin
) -> None:
    enter(visitor, "operator")
    older = {
        "id": 1,
        "cohorts": "npu-4t/*",
        "values": {"js_warn": 0.05},
        "reason": "noisy",
        "author": "x",
        "created": 1.0,
    }
    twin.thresholds = [older]
    path = "/console/settings/change"
    form = form_of(visitor, f"{path}?name=z_threshold&cohorts=npu-4t/*")
    bad = [{"value": "x"}, {"cohorts": "everything"}, {"reason": " "}]
    good = {**form, "cohorts": "npu-4t/*", "value": "4.5", "reason": "calibrated in week 48"}
    for change in bad:
        answer = visitor.post(path, data={**good, **change})
        assert answer.status_code == 422
    assert twin.thresholds == [older]
    answer = visitor.post(path, data=good)
    assert answer.status_code == 303
    assert twin.thresholds[0]["values"] == {"js_warn": 0.05, "z_threshold": 4.5}
    text = visitor.get("/console/settings").text
    assert "calibrated in week 48" in text
    assert "4.5" in text


def test_a_viewer_reads_settings_and_changes_none(visitor: httpx.Client, twin: Twin) -> None:
    enter(visitor, "viewer")
    text = visitor.get("/console/settings").text
    assert "sigma-equivalent" in text
    assert "/console/settings/change" not in text
    assert visitor.get("/console/settings/change?name=z_threshold").status_code == 403
    csrf = re.search(r'name="csrf" value="([^"]+)"', text)
    assert csrf is not None
    form = {"csrf": csrf.group(1), "name": "z_threshold", "cohorts": "npu-4t/*", "value": "9", "reason": "let me"}
    assert visitor.post("/console/settings/change", data=form).status_code == 403
    assert twin.thresholds == []


def test_releases_show_what_waits_for_a_person(visitor: httpx.Client, twin: Twin) -> None:
    from contracts.wire import RolloutState

    enter(visitor, "releaser")
    assert "a person decides" not in visitor.get("/console/releases").text
    twin.rollouts["r-2"] = twin.rollouts["r-2"].model_copy(update={"state": RolloutState.PAUSED})
    text = visitor.get("/console/releases").text
    assert "a person decides" in text
    assert "/console/rollouts/r-2/resume" in text
    assert "47 / 60" in text


def test_own_sessions_are_listed_and_ended(visitor: httpx.Client, twin: Twin) -> None:
    enter(visitor, "viewer")
    other = str(twin.enter("viewer")["token"])
    text = visitor.get("/console/account").text
    ends = re.findall(r'action="(/console/account/sessions/[^"]+/end)"', text)
    assert len(ends) == 1  # not for the one in use
    csrf = form_of(visitor, "/console/account")["csrf"]
    assert visitor.post(ends[0], data={"csrf": csrf}).status_code == 303
    assert other not in twin.sessions
    assert visitor.get("/").status_code == 200


def test_a_token_is_shown_once_reads_only_by_default_and_is_revoked(visitor: httpx.Client, twin: Twin) -> None:
    enter(visitor, "operator")
    csrf = form_of(visitor, "/console/account")["csrf"]
    assert 'type="checkbox" value="true" checked' in visitor.get("/console/account").text
    form = {"csrf": csrf, "label": "nightly report", "days": "30", "reads_only": "true"}
    made = visitor.post("/console/account/tokens", data=form)
    assert "el_00aa_shown-once" in made.text
    assert all(scope.endswith(":read") for scope in twin.tokens[0]["scopes"])  # type: ignore[attr-defined]
    again = visitor.get("/console/account").text
    assert "el_00aa_shown-once" not in again
    assert "nightly report" in again
    assert visitor.post("/console/account/tokens/00aa/revoke", data={"csrf": csrf}).status_code == 303
    assert twin.tokens == []


def test_a_bare_token_has_sessions_and_no_password_or_tokens(operator: httpx.Client) -> None:
    text = operator.get("/console/account").text
    assert "Open sessions" in text
    assert "API tokens" not in text
    assert "Present password" not in text


def test_a_changed_password_moves_this_browser_to_a_new_session(visitor: httpx.Client) -> None:
    enter(visitor, "viewer")
    csrf = form_of(visitor, "/console/account")["csrf"]
    path = "/console/account/password"
    new = "a-new-long-phrase"
    wrong = visitor.post(path, data={"csrf": csrf, "current": "nope", "new": new, "again": new})
    assert wrong.status_code == 401
    assert "present password is wrong" in wrong.text
    differ = visitor.post(path, data={"csrf": csrf, "current": PASSWORD, "new": new, "again": "other"})
    assert differ.status_code == 422
    right = visitor.post(path, data={"csrf": csrf, "current": PASSWORD, "new": new, "again": new})
    assert right.status_code == 303
    assert visitor.get("/console/account").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/console/account/sessions/x/end",
        "/console/account/tokens",
        "/console/account/tokens/x/revoke",
        "/console/account/password",
        "/console/settings/change",
        "/logout",
    ],
)
def test_every_form_demands_its_token_and_our_own_origin(visitor: httpx.Client, path: str) -> None:
    enter(visitor, "admin")
    csrf = form_of(visitor, "/console/account")["csrf"]
    base = {"name": "z_threshold"}
    assert visitor.post(path, data=base).status_code == 403
    assert visitor.post(path, data={**base, "csrf": "x" * 44}).status_code == 403
    foreign = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    assert visitor.post(path, data={**base, "csrf": csrf}, headers=foreign).status_code == 403
    assert visitor.get("/console/account").status_code == 200
