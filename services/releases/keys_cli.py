"""`edgeloop release keys`: master keys of sealed bundles and signing keys of the update repository.

Nothing here shows or takes a key; the platform makes, uses and destroys its own. The ceremony: docs/how-to/keys.md.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

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
from services.releases.terminal import console, print_json

SERVICE = "releases"
CONTENT = "content"
ROLES = ("root", "targets", "snapshot", "timestamp")
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    help="Keys: show, rotate, revoke. They stay on the platform.",
)
ReasonOption = Annotated[str, typer.Option("--reason", "-m", help="Why, for the audit trail.")]


@app.command("show", epilog="Example: edgeloop release keys show --json")
def show(
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Master key generations, and how many content keys each of them wraps."""
    with platform_client(SERVICE, state, url, token) as platform:
        _print(platform.get("/v1/content-keys"), as_json)


@app.command(
    "rotate", epilog='Example: edgeloop release keys rotate -m "yearly"; ... rotate --role targets -m "staff left"'
)
def rotate(
    reason: ReasonOption,
    role: Annotated[str, typer.Option(help=f"content (the master key), or {', '.join(ROLES)}.")] = CONTENT,
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Make the next key. The first master key turns sealing on.

    A new master key wraps every content key at once. A new signing key takes over, and the old one signs nothing any
    more.
    """
    if role not in (CONTENT, *ROLES):
        fail(f"no key has the role {role!r}; known: {', '.join((CONTENT, *ROLES))}", EXIT_USAGE)
    with platform_client(SERVICE, state, url, token) as platform:
        if role == CONTENT:
            _print(platform.post("/v1/content-keys/rotations", {"reason": reason}), as_json)
            return
        platform.request("POST", "/v1/signing-keys/rotations", json={"role": role, "reason": reason})
    print_json({"rotated": role}) if as_json else console().print(f"{role}: a new key signs from now on")


@app.command("revoke", epilog='Example: edgeloop release keys revoke --generation 1 -m "rotated"')
def revoke(
    reason: ReasonOption,
    generation: Annotated[int, typer.Option(min=0, help="Destroy an old master key that wraps nothing.")] = 0,
    bundle: Annotated[str, typer.Option(help="Digest: nobody gets this bundle's keys any more.")] = "",
    device: Annotated[str, typer.Option(help="Device id: it gets no key any more.")] = "",
    lift: Annotated[bool, typer.Option("--lift", help="With --device: allow it again, also with a new chip.")] = False,
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Take a key away: a master key generation, a bundle's content keys, or a device's right to any.

    What runs on devices goes on: `edgeloop release` commands stop a bundle.
    """
    named = {"generation": generation, "digest": bundle, "device_id": device}
    given = {name: value for name, value in named.items() if value}
    if len(given) != 1 or (lift and not device):
        fail("give exactly one of --generation, --bundle and --device (--lift with --device only)", EXIT_USAGE)
    with platform_client(SERVICE, state, url, token) as platform:
        body = {**given, "lift": lift, "reason": reason}
        _print(platform.post("/v1/content-keys/revocations", body), as_json)


def _print(found: Any, as_json: bool) -> None:  # Any: JSON
    if as_json:
        print_json(found)
        return
    table = Table("generation", "content keys", "key at hand", box=None)
    for one in found["generations"]:
        newest = " (newest)" if one["generation"] == found["newest"] else ""
        table.add_row(f"{one['generation']}{newest}", str(one["content_keys"]), "yes" if one["present"] else "no")
    console().print("bundles are sealed" if found["sealing"] else "bundles are published plain: there is no master key")
    console().print(table)
