"""`edgeloop backup`: make a backup, check one, bring one back.

Exit status: 0 done, 1 it did not work or is not whole, 2 wrong use.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from sqlalchemy.exc import OperationalError

from services.kit.operator_cli import EXIT_REFUSED, JsonOption, fail
from services.operations import backup

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    help="Database, objects and signing keys: make a backup, check one, bring one back.",
)
FolderArgument = Annotated[Path, typer.Argument(help="The backup's folder.")]


@app.command("make", epilog="Example: edgeloop backup make /backups/2026-11-30")
def make_command(folder: FolderArgument, as_json: JsonOption = False) -> None:
    """Write a backup into a new folder while the platform runs. Reads EDGELOOP_* and needs pg_dump."""
    _report(lambda tell: backup.make(folder, tell), f"{folder} holds", as_json)


@app.command("verify", epilog="Example: edgeloop backup verify /backups/2026-11-30")
def verify_command(folder: FolderArgument, as_json: JsonOption = False) -> None:
    """Hash every file of a backup again. Leaves with 1 when it is not whole."""
    wrong = backup.faults(folder)
    if as_json:
        print(json.dumps({"ok": not wrong, "faults": wrong}, indent=2))
    else:
        Console().print("whole" if not wrong else "\n".join(wrong), soft_wrap=True)
    if wrong:
        raise typer.Exit(EXIT_REFUSED)


@app.command("restore", epilog="Example: edgeloop backup restore /backups/2026-11-30")
def restore_command(folder: FolderArgument, as_json: JsonOption = False) -> None:
    """Bring a backup back into an empty database, the object store and the state folder. Stop the platform first."""
    _report(lambda tell: backup.restore(folder, tell), "brought back", as_json)


def _report(work: Callable[[backup.Tell], backup.Summary], words: str, as_json: bool) -> None:
    try:
        with Console(stderr=True).status("beginning") as status:
            summary = work(status.update)
    except (backup.BackupError, OperationalError, OSError) as error:
        fail(str(error).splitlines()[0], EXIT_REFUSED)
    if as_json:
        print(json.dumps(asdict(summary), indent=2))
    else:
        counts = f"{summary.dump_bytes:,} bytes of database, {summary.objects} objects, {summary.keys} keys"
        Console().print(f"{words} {counts}", soft_wrap=True)
