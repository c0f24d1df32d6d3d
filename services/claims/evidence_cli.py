"""`edgeloop evidence`: file what proves a number, list it, export it, check it.

Exit status: 0 done, 1 the platform refused or is not reachable, 2 wrong use, 3 evidence was changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.progress import track
from rich.table import Table

from services.claims import archive, collect
from services.claims.schemas import EvidenceRecord
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

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    help="Evidence behind published numbers: written once, kept three years.",
)
EXIT_CHANGED = 3
SERVICE = "claims"
IdsArgument = Annotated[list[str] | None, typer.Argument(help="Ids of evidence; none: all.")]


@app.command(
    "add",
    epilog="Example: edgeloop evidence add sr-2026q4 --summary 'latency of 2x on three phones' --device 'X1, chip A, "
    "driver 1.3' --test-set clips.tar --script bench.py --log raw.jsonl --value '25 ms @ median of 3000 frames, X1'",
)
def add(
    evidence_id: Annotated[str, typer.Argument(metavar="ID", help="How texts will cite it.")],
    summary: Annotated[str, typer.Option(help="What was measured, in a line.")],
    device: Annotated[list[str], typer.Option(help="A test device: name, chip, system, driver. Repeat.")],
    test_set: Annotated[list[Path], typer.Option(help="A test set; only its hashes are filed. Repeat.")],
    script: Annotated[list[str], typer.Option(help="NAME=VERSION of a script, or its path. Repeat.")],
    log: Annotated[list[Path], typer.Option(help="A raw log; filed whole. Repeat.")],
    value: Annotated[list[str] | None, typer.Option(help="'25 ms @ condition': a number it proves. Repeat.")] = None,
    measured: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Day; default today.")] = None,
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """File evidence: devices, hashes of test sets, versions of scripts, raw logs. It can never be overwritten."""
    day = measured.date() if measured else date.today()
    console = Console(stderr=True)
    try:
        with console.status("hashing test sets and logs"):
            made = collect.manifest(evidence_id, summary, day, device, test_set, script, log, value or ())
    except (collect.CollectError, OSError) as error:
        fail(str(error), EXIT_USAGE)
    except ValidationError as error:
        first = error.errors()[0]
        fail(f"{'/'.join(str(part) for part in first['loc'])}: {first['msg']}", EXIT_USAGE)
    files = [("logs", (path.name, path.read_bytes(), "application/octet-stream")) for path in log]
    with platform_client(SERVICE, state, url, token) as platform, console.status("sending"):
        answer = platform.request("POST", "/v1/evidence", data={"manifest": made.canonical().decode()}, files=files)
    record = EvidenceRecord.model_validate_json(answer.content)
    if as_json:
        print(record.model_dump_json(indent=2))
    else:
        Console().print(f"filed {made.id}, SHA-256 {record.digest}, kept until {record.keep_until:%Y-%m-%d}")


@app.command("list", epilog="Examples: edgeloop evidence list | edgeloop evidence list --json")
def list_command(
    state: StateOption = DEFAULT_STATE, url: UrlOption = "", token: TokenOption = "", as_json: JsonOption = False
) -> None:
    """All evidence, newest first."""
    with platform_client(SERVICE, state, url, token) as platform:
        found = list(_all(platform))
    if as_json:
        print(json.dumps([record.model_dump(mode="json") for record in found], indent=2))
        return
    table = Table("id", "measured", "filed by", "kept until", "numbers", "summary")
    for record in found:
        manifest = record.manifest
        values = ", ".join(f"{entry.value} {entry.unit}" for entry in manifest.values)
        until = f"{record.keep_until:%Y-%m-%d}"
        table.add_row(manifest.id, f"{manifest.measured_on}", record.filed_by, until, values, manifest.summary)
    Console().print(table)


@app.command(
    "export",
    epilog="Examples: edgeloop evidence export evidence.tar | edgeloop evidence export q4.tar sr-2026q4",
)
def export(
    output: Annotated[Path, typer.Argument(help="The archive to write; must not exist.")],
    ids: IdsArgument = None,
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Write evidence with its logs and hashes into one tar, for an authority or an archive."""
    with platform_client(SERVICE, state, url, token) as platform:
        chosen = _chosen(platform, ids)
        progress = track(chosen, "exporting", console=Console(stderr=True), transient=True)
        try:
            written = archive.write(output, progress, lambda name, log: _log(platform, name, log))
        except (archive.ArchiveError, OSError) as error:
            fail(str(error), EXIT_USAGE)
    if as_json:
        print(json.dumps({"archive": str(output), "ids": written}, indent=2))
    else:
        Console().print(f"{output}: {len(written)} pieces of evidence")


@app.command(
    "verify",
    epilog="Examples: edgeloop evidence verify | edgeloop evidence verify sr-2026q4 | "
    "edgeloop evidence verify --archive evidence.tar",
)
def verify(
    ids: IdsArgument = None,
    archive_file: Annotated[Path | None, typer.Option("--archive", help="Check an exported archive instead.")] = None,
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Hash everything again: is it still what was filed? Leaves with 3 when something was changed."""
    if archive_file is not None:
        found = _archive_checks(archive_file)
    else:
        with platform_client(SERVICE, state, url, token) as platform:
            names = ids or [record.manifest.id for record in _all(platform)]
            progress = track(names, "verifying", console=Console(stderr=True), transient=True)
            found = [platform.get(f"/v1/evidence/{name}/verification") for name in progress]
    ok = all(check["ok"] for check in found)
    if as_json:
        print(json.dumps({"ok": ok, "evidence": found}, indent=2))
    else:
        for check in found:
            Console().print(f"{check['id']}: {'holds' if check['ok'] else '; '.join(check['faults'])}", soft_wrap=True)
    if not ok:
        raise typer.Exit(EXIT_CHANGED)


def _archive_checks(path: Path) -> list[dict[str, Any]]:  # Any: JSON
    try:
        wrong = archive.faults(path)
    except (archive.ArchiveError, OSError) as error:
        fail(str(error), EXIT_REFUSED)
    return [{"id": str(path), "ok": not wrong, "faults": wrong}]


def _chosen(platform: ServiceClient, ids: list[str] | None) -> list[EvidenceRecord]:
    if not ids:
        return list(_all(platform))
    return [EvidenceRecord.model_validate(platform.get(f"/v1/evidence/{name}")) for name in sorted(set(ids))]


def _all(platform: ServiceClient) -> Iterator[EvidenceRecord]:
    cursor: str | None = None
    while True:
        page = platform.get("/v1/evidence", limit=200, cursor=cursor)
        yield from (EvidenceRecord.model_validate(item) for item in page["items"])
        cursor = page["next_cursor"]
        if cursor is None:
            return


def _log(platform: ServiceClient, evidence_id: str, name: str) -> bytes:
    return platform.request("GET", f"/v1/evidence/{evidence_id}/logs/{name}").content
