"""`edgeloop admin` against the running platform."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from services.identity.cli import app
from tests.identity.conftest import GOOD, People
from tests.support.http import ApiClient, LiveServer
from tests.support.platform import Tokens


def _document(output: str) -> dict[str, list[dict[str, object]]]:
    """The JSON in the output; the server of this process writes its log there too."""
    found: dict[str, list[dict[str, object]]] = json.JSONDecoder().raw_decode(output[output.index("{\n") :])[0]
    return found


@pytest.fixture
def run(live_server: LiveServer, tokens: Tokens) -> object:
    def called(*arguments: str, text: str = "", token: str = "") -> object:
        where = ["--url", live_server.url, "--token", token or tokens.operator]
        return CliRunner().invoke(app, [*arguments, *where], input=text)

    return called


def test_the_first_administrator_is_made_and_signs_in(run, people: People) -> None:  # type: ignore[no-untyped-def]
    done = run("create", "first", "--password-stdin", text=GOOD + "\n")
    assert done.exit_code == 0, done.output
    assert GOOD not in done.output
    assert "identity:write" in people.sign_in("first")["scopes"]


def test_accounts_are_listed_changed_and_disabled(run, people: People, client: ApiClient) -> None:  # type: ignore[no-untyped-def]
    token = people.enter("cora", "viewer")
    assert run("role", "cora", "operator", "--reason", "on the rota").exit_code == 0
    listed = _document(run("list", "--json").output)["items"]
    assert [(item["role"], item["sessions"]) for item in listed if item["name"] == "cora"] == [("operator", 0)]
    assert people.me(token).status_code == 401
    assert run("disable", "cora", "--reason", "left").exit_code == 0
    assert "disabled" in run("list").output
    assert run("enable", "cora", "--reason", "back").exit_code == 0
    changed = run("password", "cora", "--reason", "forgot", "--password-stdin", text="a-second-long-phrase\n")
    assert changed.exit_code == 0
    again = people.sign_in("cora", "a-second-long-phrase")["token"]
    assert run("sign-out", "cora", "--reason", "lost laptop").exit_code == 0
    assert people.me(again).status_code == 401


def test_refusals_leave_with_one_and_say_why(run, people: People) -> None:  # type: ignore[no-untyped-def]
    weak = run("create", "weak", "--password-stdin", text="short\n")
    assert weak.exit_code == 1
    assert "use 12 or more" in weak.output
    viewer = people.enter("onlooker", "viewer")
    assert run("list", token=viewer).exit_code == 1
    assert run("role", "ghost", "viewer", "--reason", "who").exit_code == 1
    assert run("create", "noinput").exit_code == 2
