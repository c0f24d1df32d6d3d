"""`edgeloop release add`, `bundles`, `bundle`: what can be released, what it changes, where it comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from contracts.wire.releases import NOTES_CHARS
from services.kit.clients import ServiceClient
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
from services.releases.terminal import bundle_report, bundle_table, console, print_json

SERVICE = "releases"


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


def show_bundle(
    beginning: Annotated[str, typer.Argument(help="Digest of a bundle, or its beginning.")],
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """One bundle: release notes, and where it comes from (run, gate report, sources)."""
    with platform_client(SERVICE, state, url, token) as platform:
        found = platform.get(f"/v1/bundles/{whole_digest(platform, beginning)}")
    print_json(found) if as_json else console().print(bundle_report(found))


def add_bundle(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A bundle file (*.elb).")],
    notes: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Release notes, a Markdown file.")
    ] = None,
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Register a bundle file, so that it can be released.

    Example: edgeloop release add new.elb --notes CHANGES.md
    """
    options = {
        "content": file.read_bytes(),
        "headers": {"Content-Type": "application/octet-stream"},
        "params": {"notes": _read(notes)} if notes else {},
    }
    with platform_client(SERVICE, state, url, token) as platform:
        made = platform.request("POST", "/v1/bundles/uploads", **options).json()
    print_json(made) if as_json else console().print(f"registered {made['digest']}")


def whole_digest(platform: ServiceClient, beginning: str) -> str:
    """The digest that begins so; leaves with 2 where it is not one bundle's."""
    if len(beginning) == 96:
        return beginning
    found = [item["digest"] for item in platform.get("/v1/bundles", limit=200)["items"]]
    matching = [digest for digest in found if digest.startswith(beginning)]
    if len(matching) != 1:
        fail(f"{len(matching)} bundles begin with {beginning!r}; `edgeloop release bundles` lists them", EXIT_USAGE)
    return str(matching[0])


def _read(file: Path) -> str:
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        fail(f"{file} is no UTF-8 text; write the notes as Markdown", EXIT_USAGE)
    if len(text) > NOTES_CHARS:
        fail(f"{file} has {len(text)} characters, release notes at most {NOTES_CHARS}", EXIT_USAGE)
    return text
