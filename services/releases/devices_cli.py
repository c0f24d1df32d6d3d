"""`edgeloop release devices`: who has joined, and who may speak no more."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from services.kit.operator_cli import (
    DEFAULT_STATE,
    JsonOption,
    StateOption,
    TokenOption,
    UrlOption,
    platform_client,
)
from services.releases.terminal import console, print_json

SERVICE = "releases"
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    help="Devices: list, revoke.",
)


@app.command("list", epilog="Example: edgeloop release devices list --class npu-4t --json")
def list_devices(
    begins: Annotated[str, typer.Option("--id", help="How the id begins.")] = "",
    device_class: Annotated[str, typer.Option("--class", help="Device class.")] = "",
    rule: Annotated[str, typer.Option(help="Which tags, like 'region == \"eu\"' (see `edgeloop release rule`).")] = "",
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many.")] = 50,
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Devices that joined, by id."""
    with platform_client(SERVICE, state, url, token) as platform:
        found = platform.get("/v1/devices", q=begins, device_class=device_class, rule=rule, limit=limit)
    if as_json:
        print_json(found)
        return
    table = Table("device", "class", "runs", box=None)
    for one in found["items"]:
        table.add_row(one["id"], one["device_class"], one["running_digest"][:12])
    console().print(table)
    if found["next_cursor"]:
        console().print(
            f"the first {len(found['items'])}; there may be more: narrow it down with --id, --class or --rule"
        )


@app.command("revoke", epilog='Example: edgeloop release devices revoke 5f2c... -m "stolen"')
def revoke(
    device: Annotated[str, typer.Argument(help="Device id.")],
    reason: Annotated[str, typer.Option("--reason", "-m", help="Why, for the audit trail.")],
    lift: Annotated[bool, typer.Option("--lift", help="Allow it to join again, with a new enrolment token.")] = False,
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Take a device's right to speak: its tokens end, it gets no key, and does not join with its key."""
    with platform_client(SERVICE, state, url, token) as platform:
        found = platform.post(f"/v1/devices/{device}/revocations", {"lift": lift, "reason": reason})
    if as_json:
        print_json(found)
        return
    said = "may join again, with a new enrolment token" if lift else f"is out: {found['tokens']} tokens ended"
    console().print(f"{found['device_id']} {said}")
