"""Sessions of the page: the cookie, what opens and what no longer does."""

from __future__ import annotations

import httpx
import pytest

from services.dashboard.sessions import BINDING, COOKIE, HOST_COOKIE, Session, set_cookie
from tests.dashboard.conftest import enter, form_of
from tests.dashboard.twin import PASSWORD, TOKEN, Twin


def _request(scheme: str) -> object:
    from fastapi import Request

    return Request({"type": "http", "scheme": scheme, "server": ("x", 443), "path": "/", "headers": []})


def test_the_cookie_is_bound_to_the_host_where_there_is_tls() -> None:
    from starlette.responses import Response

    answer = Response()
    set_cookie(_request("https"), answer, "el_1_secret")  # type: ignore[arg-type]
    said = answer.headers["set-cookie"]
    assert said.startswith(f"{HOST_COOKIE}=")
    for word in ("Secure", "HttpOnly", "SameSite=strict", "Path=/"):
        assert word in said
    assert "Domain" not in said


def test_the_token_of_forms_follows_from_the_secret_and_does_not_show_it() -> None:
    from contracts.wire.identity import Me

    first, second = (Session(f"el_1_{word}", Me(name="ada")) for word in ("one", "two"))
    assert first.csrf != second.csrf
    assert "one" not in first.csrf
    assert first.accepts(first.csrf)
    assert not first.accepts(second.csrf)
    assert "el_1_one" not in repr(first)


@pytest.mark.parametrize("unknown", ["", "x", TOKEN, "el_00_made-up"])
def test_a_cookie_that_is_no_session_opens_nothing(visitor: httpx.Client, unknown: str) -> None:
    visitor.cookies.set(COOKIE, unknown)
    assert visitor.get("/").status_code == 303


def test_a_session_that_the_identity_service_ended_is_over_here_too(visitor: httpx.Client, twin: Twin) -> None:
    enter(visitor, "releaser")
    assert visitor.get("/").status_code == 200
    twin.sessions.clear()
    answer = visitor.get("/console/releases")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/login?next=/console/releases"


def test_when_nobody_can_say_who_you_are_nothing_is_shown_and_the_session_stays(
    visitor: httpx.Client, twin: Twin
) -> None:
    enter(visitor, "viewer")
    twin.down.add("/identity")
    answer = visitor.get("/")
    assert answer.status_code == 503
    assert "Nobody can say who you are" in answer.text
    assert visitor.get("/fragments/fleet").status_code == 503
    twin.down.clear()
    assert visitor.get("/").status_code == 200


def test_a_wrong_password_says_so_and_keeps_the_name_only(visitor: httpx.Client) -> None:
    answer = visitor.post("/login", data={"name": "viewer", "password": "wrong-secret"})
    assert answer.status_code == 401
    assert "name or password is wrong" in answer.text
    assert 'value="viewer"' in answer.text
    assert "wrong-secret" not in answer.text
    assert "set-cookie" not in answer.headers


def test_an_operator_may_pause_roll_back_and_stop_but_neither_resume_nor_allow_again(
    visitor: httpx.Client, twin: Twin
) -> None:
    enter(visitor, "operator")
    for path in ("/", "/console/rollouts/r-2", "/console/releases"):
        text = visitor.get(path).text
        assert "/console/rollouts/r-2/pause" in text, path
        assert "/console/rollouts/r-2/rollback" in text, path
        assert "/console/kill-switch" in text, path
    csrf = form_of(visitor, "/console/rollouts/r-2/pause")["csrf"]
    form = {"csrf": csrf, "version": "4", "reason": "smoke in the lab"}
    assert visitor.post("/console/rollouts/r-2/pause", data=form).status_code == 303
    assert twin.rollouts["r-2"].state.value == "paused"
    text = visitor.get("/console/rollouts/r-2").text
    assert "/resume" not in text
    assert "/rollback" in text
    refused = visitor.post("/console/rollouts/r-2/resume", data={**form, "version": "5"})
    assert refused.status_code == 403
    assert "releases:write" in refused.text
    stop = {"csrf": csrf, "reason": "smoke in the lab", "killed": "true", "word": "stop"}
    assert 'value="false"' not in visitor.get("/console/kill-switch").text
    assert visitor.post("/console/kill-switch", data=stop).status_code == 200
    assert twin.killed
    again = visitor.post("/console/kill-switch", data={**stop, "killed": "false"})
    assert again.status_code == 403
    assert twin.killed
    assert [verb for verb, _ in twin.sent] == ["pause", "kill"]


def test_who_may_not_stop_sees_no_buttons_and_is_refused_by_page_and_service(visitor: httpx.Client, twin: Twin) -> None:
    enter(visitor, "viewer")
    for path in ("/", "/console/rollouts/r-2", "/console/releases"):
        text = visitor.get(path).text
        for word in ("/pause", "/rollback", "/kill-switch", "<textarea"):
            assert word not in text, path
    for path in ("/console/rollouts/r-2/pause", "/console/kill-switch"):
        assert visitor.get(path).status_code == 403
        csrf = visitor.get("/").text.split('name="csrf" value="', 1)[1].split('"', 1)[0]
        form = {"csrf": csrf, "version": "4", "reason": "let me", "killed": "true", "word": "stop"}
        answer = visitor.post(path, data=form)
        assert answer.status_code == 403
        assert "releases:halt" in answer.text
    assert twin.sent == []
    token = visitor.cookies[COOKIE]
    direct = httpx.post(
        f"{visitor.base_url}/releases/v1/kill-switch",
        json={"killed": True, "reason": "by hand"},
        headers={"Authorization": f"Bearer {token}"},
        trust_env=False,
    )
    assert direct.status_code == 403


def test_the_way_to_the_provider_and_back_belongs_to_one_browser(visitor: httpx.Client, twin: Twin) -> None:
    assert "Sign in with" not in visitor.get("/login").text
    twin.provider = "Example ID"
    assert "Sign in with Example ID" in visitor.get("/login").text
    for query in ("", "?state=s", "?state=s&code=c", "?error=access_denied&state=s"):
        answer = visitor.get(f"/login/provider/return{query}")
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
    assert BINDING not in visitor.cookies


def test_the_password_is_checked_before_an_old_session_ends(visitor: httpx.Client) -> None:
    enter(visitor, "viewer")
    old = visitor.cookies[COOKIE]
    assert visitor.post("/login", data={"name": "viewer", "password": "wrong"}).status_code == 401
    assert visitor.get("/").status_code == 200
    assert visitor.post("/login", data={"name": "viewer", "password": PASSWORD}).status_code == 303
    visitor.cookies.set(COOKIE, old)
    assert visitor.get("/").status_code == 303
