"""`edgeloop audit`: is the record of who decided what still what was written?

Exit status: 0 it holds, 1 the platform refused or is not reachable, 2 wrong use, 3 it was changed.
"""

from __future__ import annotations

import re
from typing import Annotated

import typer
from rich.console import Console

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
from services.releases.terminal import print_json

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    help="The audit trail: check that nothing in it was changed.",
)
HeadOption = Annotated[
    str, typer.Option("--head", help="A newest link that was noted before; it must lie on the trail.")
]
EXIT_CHANGED = 3


@app.callback()
def audit() -> None:
    """The audit trail."""


@app.command(
    epilog="Examples: edgeloop audit verify | edgeloop audit verify --json | edgeloop audit verify --head 9f2c..."
)
def verify(
    head: HeadOption = "",
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Walk the hash chain of the audit trail and compare every stored decision with it.

    Note the newest link outside the platform and give it as --head next time: then a trail that was cut or written
    anew is noticed too. Leaves with 3 when something was changed.
    """
    if head and not re.fullmatch(r"[0-9a-f]{64}", head):
        fail("--head wants the 64 hex digits that an earlier run printed", EXIT_USAGE)
    with platform_client("releases", state, url, token) as platform:
        found = platform.get("/v1/audit/verification", **({"head": head} if head else {}))
    if as_json:
        print_json(found)
    elif found["ok"]:
        Console().print(f"{found['entries']} entries hold together; newest link {found['head']}", soft_wrap=True)
    else:
        Console(stderr=True).print(f"[red]changed[/] {found['fault']}", highlight=False, soft_wrap=True)
    if not found["ok"]:
        raise typer.Exit(EXIT_CHANGED)
