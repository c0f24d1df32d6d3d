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
STATE = "state"
ROLES = ("root", "targets", "snapshot", "timestamp", STATE)
DAY_S = 86_400
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
    """Master key generations with what each of them wraps, and the keys of the state document."""
    with platform_client(SERVICE, state, url, token) as platform:
        found = {**platform.get("/v1/content-keys"), "state_keys": platform.get("/v1/state-keys")}
    _print(found, as_json)
    if not as_json:
        _print_state_keys(found["state_keys"])


@app.command(
    "rotate", epilog='Example: edgeloop release keys rotate -m "yearly"; ... rotate --role targets -m "staff left"'
)
def rotate(
    reason: ReasonOption,
    role: Annotated[str, typer.Option(help=f"content (the master key), or {', '.join(ROLES)}.")] = CONTENT,
    overlap_days: Annotated[
        float, typer.Option(min=0, max=365, help="With --role state: how long the old key signs too. 0: not at all.")
    ] = 30.0,
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Make the next key. The first master key turns sealing on.

    A new master key wraps every content key at once. A new signing key takes over, and the old one signs nothing any
    more; that of the state document signs beside the new one for --overlap-days.
    """
    if role not in (CONTENT, *ROLES):
        fail(f"no key has the role {role!r}; known: {', '.join((CONTENT, *ROLES))}", EXIT_USAGE)
    with platform_client(SERVICE, state, url, token) as platform:
        if role == CONTENT:
            _print(platform.post("/v1/content-keys/rotations", {"reason": reason}), as_json)
            return
        body = {"role": role, "reason": reason, "overlap_s": round(overlap_days * DAY_S)}
        platform.request("POST", "/v1/signing-keys/rotations", json=body)
    print_json({"rotated": role}) if as_json else console().print(f"{role}: a new key signs from now on")


@app.command("revoke", epilog='Example: edgeloop release keys revoke --generation 1 -m "rotated"')
def revoke(
    reason: ReasonOption,
    generation: Annotated[int, typer.Option(min=0, help="Destroy an old master key that wraps nothing.")] = 0,
    bundle: Annotated[str, typer.Option(help="Digest: nobody gets this bundle's keys any more.")] = "",
    device: Annotated[str, typer.Option(help="Device id: it gets no key any more.")] = "",
    state_key: Annotated[
        str, typer.Option(help="Public key, or its beginning: it signs the state document no more.")
    ] = "",
    lift: Annotated[bool, typer.Option("--lift", help="With --device: allow it again, also with a new chip.")] = False,
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Take a key away: a master key generation, a bundle's content keys, a device's right to any, a state key.

    What runs on devices goes on: `edgeloop release` commands stop a bundle.
    """
    named = {"generation": generation, "digest": bundle, "device_id": device, "public": state_key}
    given = {name: value for name, value in named.items() if value}
    if len(given) != 1 or (lift and not device):
        options = "--generation, --bundle, --device and --state-key"
        fail(f"give exactly one of {options} (--lift with --device only)", EXIT_USAGE)
    with platform_client(SERVICE, state, url, token) as platform:
        if state_key:
            left = platform.post("/v1/state-keys/revocations", {"public": state_key, "reason": reason})
            print_json(left) if as_json else _print_state_keys(left)
            return
        body = {**given, "lift": lift, "reason": reason}
        _print(platform.post("/v1/content-keys/revocations", body), as_json)


def _print_state_keys(found: Any) -> None:  # Any: JSON
    table = Table("state key", "since", "signs", box=None)
    for one in found["keys"]:
        until = f" until {one['until'][:16]}" if one["until"] else ""
        signs = f"ended {one['ended'][:16]}" if one["ended"] else f"{'yes' if one['signs'] else 'no'}{until}"
        table.add_row(one["public"], one["created"][:16], signs)
    console().print(table)


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
