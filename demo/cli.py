"""Command `edgeloop demo`."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console

from demo.errors import DemoError
from demo.run import run_demo
from demo.settings import DemoSettings
from edgeloop.figures import show
from embedded.errors import EmbeddedError
from flows.data.errors import DataError
from flows.errors import FlowError


def demo(
    folder: Annotated[Path, typer.Option("--out", help="Where the report and all state go; emptied first.")] = Path(
        "build/demo"
    ),
    video: Annotated[Path | None, typer.Option(help="Your own video instead of the built-in held-out clips.")] = None,
    devices: Annotated[int, typer.Option(help="Number of light devices.", min=180, max=3_000)] = 300,
    port: Annotated[int, typer.Option(help="Port of the platform.")] = 8080,
    budget_minutes: Annotated[float | None, typer.Option(help="Minutes of learning.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON at the end.")] = False,
) -> None:
    """One turn of the loop on real video: notice, learn, build, gate, release; then two bad candidates are stopped.

    Takes about a quarter of an hour on two cores and leaves nothing running. Exit code 0 only when every promise held.

    Examples: edgeloop demo · edgeloop demo --video call.mp4 --out /tmp/demo · edgeloop demo --json
    """
    signal.signal(signal.SIGTERM, _end)
    console = Console(stderr=as_json)
    settings = replace(DemoSettings(), light_devices=devices)
    if budget_minutes is not None:
        settings = replace(settings, budget_minutes=budget_minutes)
    if video is not None and not video.is_file():
        console.print(f"[red]error[/] {video} is not a file; give a video that PyAV can read")
        raise typer.Exit(2)
    try:
        story = run_demo(folder, settings, console, port, video.resolve() if video else None)
    except (DemoError, EmbeddedError, FlowError, DataError) as error:
        console.print(f"[red]error[/] {error}")
        console.print(f"What happened so far: {folder / 'report.html'}")
        raise typer.Exit(1) from error
    code = show(story.figures, as_json=as_json, console=console, title="Promises of the first turn")
    console.print(f"Report: {folder / 'report.html'}")
    if as_json:
        (folder / "figures.json").write_text(json.dumps([vars(f) for f in story.figures], default=str))
    raise typer.Exit(code)


def _end(_number: int, _frame: FrameType | None) -> None:
    """A polite end is an end like Ctrl-C: everything that was started is stopped."""
    sys.exit(143)
