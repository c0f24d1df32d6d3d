"""*Accounts*: an administrator makes, changes, unlocks and signs out others, each time with a reason."""

from __future__ import annotations

import httpx
import pytest

from services.dashboard.sessions import COOKIE
from tests.dashboard.conftest import enter, form_of
from tests.dashboard.twin import EVIL, Twin
from tests.dashboard.twin.people import ONE_TIME

OPERATOR = "/console/accounts/operator"


def test_accounts_are_listed_by_pages_with_their_standing(visitor: httpx.Client, twin: Twin) -> None:
    twin.roles |= {f"u-{number:03d}": "viewer" for number in range(60)}
    text = enter(visitor, "admin").get("/console/accounts").text
    assert text.count('<tr><th scope="row">') == 50
    further = visitor.get("/console/accounts?cursor=50").text
    assert 'href="/console/accounts/viewer"' in further
    assert "locked" in further
    assert "First page" in further


def test_one_account_shows_its_sessions_tokens_and_what_may_be_done(visitor: httpx.Client, twin: Twin) -> None:
    twin.enter("operator")
    text = enter(visitor, "admin").get(OPERATOR).text
    for verb in ("role", "password", "sign-out", "disable"):
        assert f'href="{OPERATOR}/{verb}"' in text
    for verb in ("unlock", "enable"):
        assert f'href="{OPERATOR}/{verb}"' not in text
    assert "drift:read" in text
    assert EVIL not in text
    assert "/console/accounts/viewer/unlock" in visitor.get("/console/accounts/viewer").text
    assert visitor.get("/console/accounts/nobody").status_code == 404


@pytest.mark.parametrize("role", ["viewer", "operator", "releaser"])
def test_who_is_no_administrator_sees_no_account_and_is_refused_by_page_and_service(
    visitor: httpx.Client, twin: Twin, role: str
) -> None:
    assert "/console/accounts" not in enter(visitor, role).get("/").text
    for path in ("/console/accounts", "/console/new-account", OPERATOR, f"{OPERATOR}/role", f"{OPERATOR}/tokens/00bb"):
        answer = visitor.get(path)
        assert answer.status_code == 403, path
        assert "identity:" in answer.text
    csrf = visitor.get("/").text.split('name="csrf" value="', 1)[1].split('"', 1)[0]
    form = {"csrf": csrf, "version": "1", "reason": "let me in", "role": "admin", "name": "eve"}
    for path in ("/console/new-account", f"{OPERATOR}/role", f"{OPERATOR}/tokens/00bb"):
        assert visitor.post(path, data=form).status_code == 403, path
    direct = httpx.patch(
        f"{visitor.base_url}/identity/v1/accounts/operator",
        json={"role": "admin", "reason": "by hand"},
        headers={"Authorization": f"Bearer {visitor.cookies[COOKIE]}"},
        trust_env=False,
    )
    assert direct.status_code == 403
    assert twin.sent == []


def test_a_new_account_gets_a_password_that_is_shown_once(visitor: httpx.Client, twin: Twin) -> None:
    form = form_of(enter(visitor, "admin"), "/console/new-account")
    made = visitor.post("/console/new-account", data={**form, "name": "bo", "role": "releaser", "reason": "joined us"})
    assert made.status_code == 201
    assert ONE_TIME in made.text
    assert twin.roles["bo"] == "releaser"
    assert twin.sent == [("make", "joined us")]
    assert ONE_TIME not in visitor.get("/console/accounts/bo").text
    again = visitor.post("/console/new-account", data={**form, "name": "bo", "role": "viewer", "reason": "again"})
    assert again.status_code == 409
    assert "already" in again.text
    assert 'value="bo"' in again.text


@pytest.mark.parametrize(
    ("name", "role", "reason", "said"),
    [
        ("Bo", "viewer", "joined us", "small letters"),
        ("../x", "viewer", "joined us", "small letters"),
        ("bo", "emperor", "joined us", "small letters"),
        ("bo", "viewer", " ", "Say why"),
    ],
)
def test_a_new_account_that_makes_no_sense_is_not_made(
    visitor: httpx.Client, twin: Twin, name: str, role: str, reason: str, said: str
) -> None:
    form = form_of(enter(visitor, "admin"), "/console/new-account")
    answer = visitor.post("/console/new-account", data={**form, "name": name, "role": role, "reason": reason})
    assert answer.status_code == 422
    assert said in answer.text
    assert twin.sent == []


@pytest.mark.parametrize("verb", ["role", "password", "sign-out", "disable"])
def test_a_change_goes_through_its_confirm_page_once_and_ends_sessions(
    visitor: httpx.Client, twin: Twin, verb: str
) -> None:
    twin.enter("operator")
    enter(visitor, "admin")
    assert "Open now: 1 sessions, 1 API tokens" in visitor.get(f"{OPERATOR}/{verb}").text
    form = {**form_of(visitor, f"{OPERATOR}/{verb}"), "role": "viewer"}
    assert visitor.post(f"{OPERATOR}/{verb}", data={**form, "reason": " "}).status_code == 422
    answer = visitor.post(f"{OPERATOR}/{verb}", data={**form, "reason": "left the rota"})
    if verb == "password":
        assert answer.status_code == 200
        assert ONE_TIME in answer.text
    else:
        assert answer.status_code == 303
        assert answer.headers["location"] == OPERATOR
    assert twin.sent == [("change", "left the rota")]
    assert "operator" not in twin.sessions.values()
    assert twin.roles["operator"] == ("viewer" if verb == "role" else "operator")
    assert bool(twin.people["operator"].get("disabled")) == (verb == "disable")
    late = visitor.post(f"{OPERATOR}/{verb}", data={**form, "reason": "once more"})
    assert late.status_code == 412
    assert "look at it again" in late.text
    assert len(twin.sent) == 1


def test_a_locked_account_is_unlocked_and_a_disabled_one_enabled(visitor: httpx.Client, twin: Twin) -> None:
    enter(visitor, "admin")
    form = form_of(visitor, "/console/accounts/viewer/unlock")
    done = visitor.post("/console/accounts/viewer/unlock", data={**form, "reason": "wrong keyboard"})
    assert done.status_code == 303
    assert twin.people["viewer"]["locked_until"] is None
    assert "makes no sense" in visitor.get("/console/accounts/viewer/unlock").text
    twin.people["viewer"]["disabled"] = True
    form = form_of(visitor, "/console/accounts/viewer/enable")
    assert visitor.post("/console/accounts/viewer/enable", data={**form, "reason": "came back"}).status_code == 303
    assert twin.people["viewer"]["disabled"] is False


def test_a_token_of_somebody_is_revoked_with_a_reason(visitor: httpx.Client, twin: Twin) -> None:
    path = f"{OPERATOR}/tokens/00bb"
    form = form_of(enter(visitor, "admin"), path)
    assert visitor.post(path, data={**form, "reason": ""}).status_code == 422
    assert visitor.post(path, data={**form, "reason": "found in a log"}).status_code == 303
    assert twin.sent == [("revoke", "found in a log")]
    assert visitor.get(path).status_code == 404


@pytest.mark.parametrize("path", ["/console/new-account", f"{OPERATOR}/disable", f"{OPERATOR}/tokens/00bb"])
def test_a_form_that_is_not_ours_changes_no_account(visitor: httpx.Client, twin: Twin, path: str) -> None:
    form = {**form_of(enter(visitor, "admin"), path), "reason": "looks right", "name": "bo", "role": "admin"}
    assert visitor.post(path, data={**form, "csrf": "x" * 43}).status_code == 403
    assert visitor.post(path, data=form, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert twin.sent == []


def test_an_unknown_verb_is_404_and_a_service_that_is_down_says_so(visitor: httpx.Client, twin: Twin) -> None:
    assert enter(visitor, "admin").get(f"{OPERATOR}/promote").status_code == 404
    twin.down.add("/identity/v1/accounts")
    assert "the database does not answer" in visitor.get("/console/accounts").text
    assert visitor.get(OPERATOR).status_code == 503


def test_who_signed_in_with_a_one_time_password_sees_the_own_page_only(visitor: httpx.Client, twin: Twin) -> None:
    twin.people["viewer"]["must_change"] = True
    enter(visitor, "viewer")
    for path in ("/", "/console/devices", "/console/accounts"):
        answer = visitor.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/console/account")
    assert visitor.get("/fragments/fleet").status_code == 401
    text = visitor.get("/console/account").text
    assert "signed in with a one-time password" in text
    csrf = text.split('name="csrf" value="', 1)[1].split('"', 1)[0]
    form = {"csrf": csrf, "current": "right-password", "new": "a-long-new-phrase", "again": "a-long-new-phrase"}
    assert visitor.post("/console/account/password", data=form).status_code == 303
    assert visitor.get("/console/devices").status_code == 200
