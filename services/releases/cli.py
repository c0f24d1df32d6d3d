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
from services.releases.bundles_cli import add_bundle, list_bundles, show_bundle, whole_digest
from services.releases.devices_cli import app as devices
from services.releases.keys_cli import app as keys
from services.releases.targeting_cli import checked_rule, layer_share, layers
from services.releases.targeting_cli import rule as rule_command
from services.releases.terminal import (
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
    help="Bundles, rules, layers; rollouts: approve, start, pause, resume, roll back; kill switch; enrolment; keys.",
)
app.add_typer(keys, name="keys")
app.add_typer(devices, name="devices")
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


app.command("bundles")(list_bundles)
app.command("bundle")(show_bundle)
app.command("add")(add_bundle)
app.command("rule")(rule_command)
app.command("layers")(layers)


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
    rule: Annotated[str, typer.Option("--rule", help="A rule that devices must meet; `rule` tries one out.")] = "",
    layer: Annotated[str, typer.Option("--layer", help="NAME=PERCENT: a part of a layer, for nobody else.")] = "",
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

    Example: edgeloop release start 5f2ac09d --rule 'network != "weak" and version >= "1.4"' --check
    """
    spelling, (layer_name, points) = checked_rule(rule), layer_share(layer)
    with platform_client(SERVICE, state, url, token) as platform:
        if what.startswith("r-"):
            if check:
                fail("--check wants a bundle's digest, not a draft", EXIT_USAGE)
            made = _act(platform, what, "start", reason)
        else:
            body = {
                "digest": whole_digest(platform, what),
                "selector": _selector(select or []),
                "rule": spelling,
                "layer": layer_name,
                "layer_share": points,
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


@app.command("approve")
def approve(
    rollout: RolloutArgument,
    reason: ReasonOption = "approved by an operator",
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Approve a rollout that somebody else made; it starts when its maker wished so."""
    _change(rollout, "approve", reason, (state, url, token), as_json)


@app.command("reject")
def reject(
    rollout: RolloutArgument,
    reason: ReasonOption = "rejected by an operator",
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """End a rollout that has not started, for good."""
    _change(rollout, "reject", reason, (state, url, token), as_json)


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
