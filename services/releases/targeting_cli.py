"""`edgeloop release rule` and `layers`: whom a release is for, and who shares no device with whom."""

from __future__ import annotations

from typing import Annotated

import typer

from contracts.targeting import RuleError, parse, render
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
from services.releases.terminal import console, layer_table, print_json

SERVICE = "releases"


def rule(
    text: Annotated[str, typer.Argument(help="A rule, in quotes for the shell.")],
    as_json: JsonOption = False,
) -> None:
    """Read a rule and print it in its normal spelling, or say where it is wrong; asks no platform.

    Example: edgeloop release rule 'model in ("a12", "b3") and network != "weak" and version >= "1.4"'
    """
    spelling = checked_rule(text)
    print_json({"rule": spelling}) if as_json else console().print(spelling, highlight=False, soft_wrap=True)


def layers(
    add: Annotated[str, typer.Option("--add", help="Make a layer of this name first.")] = "",
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Layers and who holds which part of them. Rollouts of one layer never share a device.

    Example: edgeloop release layers --add denoise
    """
    with platform_client(SERVICE, state, url, token) as platform:
        if add:
            platform.post("/v1/layers", {"name": add})
        found = platform.get("/v1/layers", limit=200)
    print_json(found) if as_json else console().print(layer_table(found["items"]))


def checked_rule(text: str) -> str:
    """The rule in its normal spelling; leaves with 2 and a mark under the place where it is none."""
    if not text.strip():
        return ""
    try:
        return render(parse(text))
    except RuleError as error:
        typer.echo(f"error the rule cannot be read\n{error.pointed(text)}", err=True)  # unwrapped: the mark has a place
        raise typer.Exit(EXIT_USAGE) from error


def layer_share(text: str) -> tuple[str, int]:
    """`NAME=PERCENT` as a layer and basis points; nothing for nothing. Leaves with 2."""
    if not text:
        return "", 0
    name, _, percent = text.partition("=")
    try:
        points = round(float(percent.removesuffix("%")) * 100)
    except ValueError:
        points = 0
    if not name or not 1 <= points <= 10_000:
        fail(f"--layer {text!r} is not NAME=PERCENT with a percentage up to 100, like denoise=25", EXIT_USAGE)
    return name, points
