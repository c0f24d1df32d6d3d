"""`edgeloop up` and `edgeloop status`."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import psutil
import typer
from rich.console import Console
from rich.table import Table

from embedded.errors import EmbeddedError
from embedded.plan import OPTIONAL
from embedded.state import PlatformInfo, StateFolder
from embedded.supervisor import Platform

DEFAULT_STATE = Path(".edgeloop")
NOT_RUNNING = 3
ASKED_S = 0.5

StateOption = Annotated[Path, typer.Option("--state", help="Folder that holds everything the platform keeps.")]


def up(
    state: StateOption = DEFAULT_STATE,
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Loopback port of API and dashboard.")] = 8080,
    without: Annotated[
        list[str] | None, typer.Option(help=f"Leave a part out: {', '.join(sorted(OPTIONAL))}. May be repeated.")
    ] = None,
) -> None:
    """Start the platform on this machine; Ctrl-C stops it. Everything it knows stays in the state folder."""
    console = Console(stderr=True)
    begun = time.monotonic()
    asked = Asked()
    try:
        platform = Platform(
            state,
            port,
            without=without or (),
            say=lambda line: _tell(console, time.monotonic() - begun, line),
            asked=asked.already,
        )
        with platform:
            _welcome(console, platform.info, state)
            asked.wait()
        console.print("stopped")
    except KeyboardInterrupt:
        console.print("stopped")
    except EmbeddedError as error:
        if asked.already():
            console.print("stopped")
            return
        console.print(f"[bold red]edgeloop up:[/] {error}", highlight=False)
        raise typer.Exit(1) from error
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        console.print(f"[bold red]edgeloop up:[/] {error.strerror}{where}; see to it and start again", highlight=False)
        raise typer.Exit(1) from error


def status(
    state: StateOption = DEFAULT_STATE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what runs in a state folder. Leaves with 3 when nothing runs or a part is down."""
    folder = StateFolder(state)
    document = folder.children()
    entries: dict[str, dict[str, Any]] = document.get("children", {})  # Any: JSON
    rows = {name: entry | {"alive": _alive(entry)} for name, entry in entries.items()}
    supervisor: int = document.get("supervisor") or 0
    running = bool(rows) and supervisor > 0 and psutil.pid_exists(supervisor)
    ok = running and all(row["alive"] for row in rows.values())
    if as_json:
        base_url = info.base_url if (info := folder.info()) else None
        typer.echo(json.dumps({"ok": ok, "supervisor": supervisor, "base_url": base_url, "children": rows}, indent=2))
    else:
        _print_status(rows, running, state)
    if not ok:
        raise typer.Exit(NOT_RUNNING)


class Asked:
    """Whether somebody asked to end, by Ctrl-C or SIGTERM; both stop everything in order.

    The interrupt that a signal raises can be lost: whoever clears up (a finaliser, a callback from C) reports it and
    goes on. So it is remembered: a start is given up, and `wait` returns at once.
    """

    def __init__(self) -> None:
        self._asked = False
        signal.signal(signal.SIGINT, self._ask)
        signal.signal(signal.SIGTERM, self._ask)

    def already(self) -> bool:
        """Whether somebody asked; a start looks at it."""
        return self._asked

    def wait(self) -> None:
        """Return when somebody asked, also before. Raises KeyboardInterrupt when that happens meanwhile."""
        while not self._asked:  # not an event: its lock may be held when the signal comes
            time.sleep(ASKED_S)

    def _ask(self, number: int, _frame: FrameType | None) -> None:
        self._asked = True
        if number == signal.SIGTERM:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt


def _tell(console: Console, seconds: float, line: str) -> None:
    console.print(f"[dim]{seconds:6.1f} s[/]  {line}", highlight=False)


def _welcome(console: Console, info: PlatformInfo, state: Path) -> None:
    console.print()
    console.print(f"  dashboard and API  [bold]{info.base_url}[/]", highlight=False)
    console.print(f"  flows (Prefect)    {info.prefect_url}", highlight=False)
    console.print(f"  runs (MLflow)      {info.mlflow_url}", highlight=False)
    console.print(f"  tokens             {state / 'platform.json'}", highlight=False)
    console.print("\n  Ctrl-C stops everything; the next `edgeloop up` goes on from here.\n")


def _alive(entry: dict[str, Any]) -> bool:  # Any: JSON
    pid, created = entry.get("pid"), entry.get("created")
    try:
        return pid is not None and created is not None and abs(psutil.Process(pid).create_time() - created) < 1.0
    except psutil.Error:
        return False


def _print_status(rows: dict[str, dict[str, Any]], running: bool, state: Path) -> None:  # Any: JSON
    if not running:
        typer.echo(f"no platform runs on {state}; start it with: edgeloop up --state {state}")
        return
    table = Table("child", "state", "pid", "restarts")
    for name, row in rows.items():
        colour = "green" if row["alive"] else "bold red"
        table.add_row(name, f"[{colour}]{row['state']}[/]", str(row["pid"] or "-"), str(row["restarts"]))
    Console().print(table)
