"""`edgeloop admin`: accounts of people, made and changed with an operator's token that may write identity.

Exit status: 0 done, 1 the platform refused or is not reachable, 2 wrong use.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from contracts.wire.identity import Role
from services.kit.operator_cli import (
    DEFAULT_STATE,
    EXIT_USAGE,
    JsonOption,
    StateOption,
    TokenOption,
    UrlOption,
    fail,
    platform_client,
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    help="Accounts of people: create, list, change role, set a password, disable, sign out, unlock.",
)
Name = Annotated[str, typer.Argument(help="The account's name: small letters, digits, dot, dash.")]
RoleOption = Annotated[Role, typer.Option("--role", help="What the person may do.")]
Why = Annotated[str, typer.Option("--reason", help="Kept in the audit trail.")]
FromInput = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from standard input instead of asking for it.")
]
OneTime = Annotated[
    bool, typer.Option("--one-time", help="Make a password that must be changed at the first sign-in; shown once.")
]
NoPassword = Annotated[bool, typer.Option("--no-password", help="For a name that will only be held, not signed in to.")]
Json = dict[str, Any]  # Any: JSON


@app.callback()
def admin() -> None:
    """Accounts of people."""


@app.command(epilog="Examples: edgeloop admin create ada | edgeloop admin create bo --role viewer --one-time")
def create(
    name: Name,
    role: RoleOption = Role.ADMIN,
    password_stdin: FromInput = False,
    no_password: NoPassword = False,
    one_time: OneTime = False,
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Make an account. The first one is usually an administrator, so that is the role if none is given."""
    password = None if no_password or one_time else _password(password_stdin)
    body = {"name": name, "role": role.value, "password": password, "one_time": one_time}
    with platform_client("identity", state, url, token) as platform:
        made = platform.post("/v1/accounts", body)
    _say(made, as_json, f"{name} may sign in as {role.value}")


@app.command("list", epilog="Examples: edgeloop admin list | edgeloop admin list --json")
def list_accounts(
    state: StateOption = DEFAULT_STATE, url: UrlOption = "", token: TokenOption = "", as_json: JsonOption = False
) -> None:
    """List accounts with role, state and open sessions."""
    found: list[Json] = []
    cursor: str | None = None
    with platform_client("identity", state, url, token) as platform:
        while True:
            page = platform.get("/v1/accounts", limit=200, cursor=cursor)
            found += page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                break
    if as_json:
        print(json.dumps({"items": found}, indent=2))
        return
    table = Table("name", "role", "signs in by", "state", "sessions")
    for item in found:
        ways = [word for word, has in (("password", item["has_password"]), ("provider", item["external"])) if has]
        shown = "disabled" if item["disabled"] else "active"
        table.add_row(item["name"], item["role"], ", ".join(ways) or "-", shown, str(item["sessions"]))
    Console().print(table)


@app.command(epilog="Example: edgeloop admin role bo releaser --reason 'on the release rota'")
def role(
    name: Name,
    new: Annotated[Role, typer.Argument(help="The new role.")],
    reason: Why,
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Give an account another role. Its sessions end, and tokens that would allow more are revoked."""
    _change(name, {"role": new.value, "reason": reason}, f"{name} is {new.value} now", state, url, token, as_json)


@app.command(epilog="Example: edgeloop admin password bo --reason 'forgot it'")
def password(
    name: Name,
    reason: Why,
    password_stdin: FromInput = False,
    one_time: OneTime = False,
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Set a new password. The account's sessions and lock-outs end."""
    given = {"one_time": True} if one_time else {"password": _password(password_stdin)}
    body = {**given, "reason": reason}
    _change(name, body, f"{name} has a new password", state, url, token, as_json)


@app.command(epilog="Example: edgeloop admin disable bo --reason 'left the team'")
def disable(
    name: Name,
    reason: Why,
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Disable an account. Its sessions end and its tokens are revoked at once."""
    _change(name, {"disabled": True, "reason": reason}, f"{name} is disabled", state, url, token, as_json)


@app.command(epilog="Example: edgeloop admin enable bo --reason 'came back'")
def enable(
    name: Name,
    reason: Why,
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Let a disabled account sign in again. Revoked tokens stay revoked."""
    _change(name, {"disabled": False, "reason": reason}, f"{name} may sign in again", state, url, token, as_json)


@app.command("sign-out", epilog="Example: edgeloop admin sign-out bo --reason 'lost the laptop'")
def sign_out(
    name: Name,
    reason: Why,
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """End every session of an account."""
    _change(name, {"reason": reason}, f"{name} is signed out everywhere", state, url, token, as_json)


@app.command(epilog="Example: edgeloop admin unlock bo --reason 'it was bo, with the wrong keyboard'")
def unlock(
    name: Name,
    reason: Why,
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Forget wrong passwords in a row, so that the next try need not wait. Sessions stay."""
    with platform_client("identity", state, url, token) as platform:
        changed = platform.post(f"/v1/accounts/{name}/unlock", {"reason": reason})
    _say(changed, as_json, f"{name} may try again at once")


def _change(name: str, body: Json, done: str, state: Path, url: str, token: str, as_json: bool) -> None:
    with platform_client("identity", state, url, token) as platform:
        changed = platform.request("PATCH", f"/v1/accounts/{name}", json=body).json()
    _say(changed, as_json, done)


def _say(document: Json, as_json: bool, text: str) -> None:
    if as_json:
        print(json.dumps(document, indent=2))
    else:
        Console().print(text, highlight=False)
        if document.get("one_time_password"):
            Console().print(f"one-time password, shown this once: {document['one_time_password']}", highlight=False)


def _password(from_input: bool) -> str:
    if from_input:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        fail("no terminal to ask for the password; give --password-stdin and send it there", EXIT_USAGE)
    answer: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    return answer
