"""`edgeloop release`: what an operator does with rollouts, over the platform's own HTTP API.

Exit status: 0 done, 1 the platform refused or is not reachable, 2 wrong use, and for `show --wait`
3 when the rollout was rolled back or killed, 4 when it is paused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from contracts.wire.releases import RolloutState
from services.kit.clients import ServiceClient
from services.kit.operator_cli import (
    DEFAULT_STATE,
    EXIT_REFUSED,
    EXIT_USAGE,
    JsonOption,
    StateOption,
    TokenOption,
    UrlOption,
    fail,
    platform_client,
)
from services.releases.keys_cli import app as keys
from services.releases.terminal import (
    bundle_table,
    console,
    preflight_report,
    print_json,
    rollout_report,
    rollout_table,
    wait_for_end,
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    help="Rollouts: list, show, start, pause, resume, roll back; kill switch; enrolment tokens; keys.",
)
app.add_typer(keys, name="keys")
ReasonOption = Annotated[str, typer.Option("--reason", "-m", help="Why, for the audit trail.")]
RolloutArgument = Annotated[str, typer.Argument(help="Rollout id, as `list` shows it.")]

SERVICE = "releases"
EXIT_ROLLED_BACK, EXIT_PAUSED = 3, 4
ENDS = {
    RolloutState.ROLLED_BACK: EXIT_ROLLED_BACK,
    RolloutState.KILLED: EXIT_ROLLED_BACK,
    RolloutState.PAUSED: EXIT_PAUSED,
}


@app.command("list")
def list_rollouts(
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Rollouts, newest first."""
    with platform_client(SERVICE, state, url, token) as platform:
        found = platform.get("/v1/rollouts", limit=50)
    print_json(found) if as_json else console().print(rollout_table(found["items"]))


@app.command("bundles")
def list_bundles(
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Bundles that can be released, newest first."""
    with platform_client(SERVICE, state, url, token) as platform:
        found = platform.get("/v1/bundles", limit=50)
    print_json(found) if as_json else console().print(bundle_table(found["items"]))


@app.command("add")
def add_bundle(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A bundle file (*.elb).")],
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Register a bundle file, so that it can be released."""
    headers = {"Content-Type": "application/octet-stream"}
    with platform_client(SERVICE, state, url, token) as platform:
        made = platform.request("POST", "/v1/bundles/uploads", content=file.read_bytes(), headers=headers).json()
    print_json(made) if as_json else console().print(f"registered {made['digest']}")


@app.command("show")
def show(
    rollout: RolloutArgument,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it ends or pauses.")] = False,
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """One rollout: stages, exposure, newest verdict with its intervals."""
    path = f"/v1/rollouts/{rollout}"
    with platform_client(SERVICE, state, url, token) as platform:
        found = wait_for_end(lambda: platform.get(path), quiet=as_json) if wait else platform.get(path)
    print_json(found) if as_json else console().print(rollout_report(found))
    if wait:
        raise typer.Exit(ENDS.get(RolloutState(found["state"]), 0))


@app.command("start")
def start(
    what: Annotated[str, typer.Argument(help="Digest (or its beginning) of a bundle, or the id of a draft.")],
    select: Annotated[list[str] | None, typer.Option("--select", help="TAG=VALUE,VALUE; several times.")] = None,
    stages: Annotated[str, typer.Option(help="Basis points of the stages.")] = "500,2500,10000",
    soak_hours: Annotated[float, typer.Option(min=0, help="Least hours of a stage.")] = 4.0,
    min_devices: Annotated[int, typer.Option(min=1, help="Devices that must report before a stage ends.")] = 5,
    reason: ReasonOption = "started by an operator",
    check: Annotated[bool, typer.Option("--check", help="Only say who would be reached, and what forbids it.")] = False,
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Start a staged release of a bundle, or a draft that waits.

    With --check nothing starts; it leaves with 1 when a start would be refused.
    """
    with platform_client(SERVICE, state, url, token) as platform:
        if what.startswith("r-"):
            if check:
                fail("--check wants a bundle's digest, not a draft", EXIT_USAGE)
            made = _act(platform, what, "start", reason)
        else:
            body = {
                "digest": _digest(platform, what),
                "selector": _selector(select or []),
                "stages": _stages(stages),
                "soak_s": soak_hours * 3_600,
                "min_devices": min_devices,
                "auto_start": True,
                "reason": reason,
            }
            made = platform.post("/v1/rollout-preflights" if check else "/v1/rollouts", body)
    if check:
        print_json(made) if as_json else console().print(preflight_report(made))
        raise typer.Exit(EXIT_REFUSED if made["obstacles"] else 0)
    print_json(made) if as_json else console().print(rollout_report(made))


@app.command("pause")
def pause(
    rollout: RolloutArgument,
    reason: ReasonOption = "paused by an operator",
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Expose no further devices."""
    _change(rollout, "pause", reason, (state, url, token), as_json)


@app.command("resume")
def resume(
    rollout: RolloutArgument,
    reason: ReasonOption = "resumed by an operator",
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Go on with a paused rollout."""
    _change(rollout, "resume", reason, (state, url, token), as_json)


@app.command("rollback")
def rollback(
    rollout: RolloutArgument,
    reason: ReasonOption = "rolled back by an operator",
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Take the bundle back from every device, also after the rollout completed."""
    _change(rollout, "rollback", reason, (state, url, token), as_json)


@app.command("kill")
def kill(
    reason: ReasonOption,
    lift: Annotated[bool, typer.Option("--lift", help="Allow NPU programs again.")] = False,
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Stop every NPU program of ours on every device (or lift that)."""
    with platform_client(SERVICE, state, url, token) as platform:
        found = platform.post("/v1/kill-switch", {"killed": not lift, "reason": reason})
    if as_json:
        print_json(found)
    else:
        console().print("devices obey within a poll: " + ("killed" if found["killed"] else "allowed again"))


@app.command("token")
def token(
    uses: Annotated[int, typer.Option(min=1, help="How many devices it lets in.")] = 1,
    hours: Annotated[float, typer.Option(min=0.02, max=720, help="How long it is valid.")] = 24.0,
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Make an enrolment token; it is shown this once."""
    with platform_client(SERVICE, state, url, token) as platform:
        made = platform.post("/v1/enrolment-tokens", {"uses": uses, "ttl_s": max(60, int(hours * 3_600))})
    print_json(made) if as_json else console().print(made["token"], soft_wrap=True)


def _change(rollout: str, verb: str, reason: str, where: tuple[Path, str, str], as_json: bool) -> None:
    with platform_client(SERVICE, *where) as platform:
        found = _act(platform, rollout, verb, reason)
    print_json(found) if as_json else console().print(rollout_report(found))


def _act(platform: ServiceClient, rollout: str, verb: str, reason: str) -> Any:  # Any: JSON
    """Look, then act on exactly what was seen; somebody faster makes it fail with 412."""
    etag = platform.request("GET", f"/v1/rollouts/{rollout}").headers["ETag"]
    path, headers = f"/v1/rollouts/{rollout}/{verb}", {"If-Match": etag}
    return platform.request("POST", path, json={"reason": reason}, headers=headers).json()


def _digest(platform: ServiceClient, beginning: str) -> str:
    if len(beginning) == 96:
        return beginning
    found = [item["digest"] for item in platform.get("/v1/bundles", limit=200)["items"]]
    matching = [digest for digest in found if digest.startswith(beginning)]
    if len(matching) != 1:
        fail(f"{len(matching)} bundles begin with {beginning!r}; `edgeloop release bundles` lists them", EXIT_USAGE)
    return str(matching[0])


def _selector(pairs: list[str]) -> dict[str, list[str]]:
    selector = {}
    for pair in pairs:
        name, equals, values = pair.partition("=")
        if not equals or not values:
            raise typer.BadParameter(f"{pair!r} is not TAG=VALUE,VALUE", param_hint="--select")
        selector[name] = values.split(",")
    return selector


def _stages(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as problem:
        raise typer.BadParameter(f"{text!r} is not like 500,2500,10000", param_hint="--stages") from problem
