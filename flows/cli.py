"""Command line of the learning part: `edgeloop seed`; `retrain` and `provision` live in `flows.retrain_cli`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from flows.data.errors import DataError
from flows.retrain_cli import provision, retrain
from flows.seed import PARTS, SeedError, SeedPlan, make_seeds
from flows.tasks.training import TrainingError

__all__ = ["provision", "retrain", "seed"]


def seed(
    out: Annotated[Path, typer.Option(help="Folder that the seeds are written to.")] = Path("seeds"),
    budget_minutes: Annotated[float, typer.Option(min=0.01, help="CPU minutes of all training together.")] = 20.0,
    part: Annotated[list[str] | None, typer.Option(help=f"Make this part only: {', '.join(PARTS)}.")] = None,
    corpus: Annotated[
        Path | None, typer.Option(help="A folder of videos, or a manifest, instead of the default clips.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print seed.json instead of a summary.")] = False,
) -> None:
    """Make the seed models: hand-made network, supernet, quality net and observer."""
    parts = tuple(part or PARTS)
    if unknown := set(parts) - set(PARTS):
        raise typer.BadParameter(f"unknown part {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<48}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=as_json) as bar:
        row = bar.add_task("reading the corpus", total=1.0)
        try:
            made = make_seeds(
                SeedPlan(out, budget_minutes, parts, corpus),
                lambda share, what: bar.update(row, completed=share, description=what),
            )
        except (DataError, SeedError, TrainingError) as error:
            console.print(f"[red]seed:[/] {error}", highlight=False)
            raise typer.Exit(1) from error
    if as_json:
        typer.echo(json.dumps(made, indent=1, sort_keys=True))
        return
    console.print(f"seeds written to {out}: {', '.join(sorted(path.name for path in out.iterdir()))}", highlight=False)
