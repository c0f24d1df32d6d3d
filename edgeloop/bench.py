"""`edgeloop bench`: list the benches, or run one and hold its figures against their promises.

A bench is a function `bench(progress) -> Sequence[Figure]` behind the entry-point group `edgeloop.benches`; it calls
`progress(share, text)` with a share from 0 to 1 to say how far it is. In a checkout, modules `benchmarks/<name>.py`
with a function `bench` are found too.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from edgeloop.figures import Figure, show

GROUP = "edgeloop.benches"

Tell = Callable[[float, str], None]
Bench = Callable[[Tell], Sequence[Figure]]

app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)


def benches() -> dict[str, Callable[[], Bench]]:
    """Every bench by name, with what loads it."""
    found: dict[str, Callable[[], Bench]] = {}
    root = Path(__file__).resolve().parents[1]
    folder = root / "benchmarks"
    if folder.is_dir() and str(root) not in sys.path:
        sys.path.insert(0, str(root))  # the installed script does not look into the checkout
    for file in sorted(folder.glob("[a-z]*.py")):
        found[file.stem.replace("_", "-")] = _loader(f"benchmarks.{file.stem}")
    for point in entry_points(group=GROUP):
        found[point.name] = point.load
    return found


@app.command()
def bench(
    name: Annotated[str | None, typer.Argument(help="Which bench; without it, list them.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Measure, and compare with what was promised. Leaves with 1 when a figure is not ok."""
    known = benches()
    if name is None:
        typer.echo("\n".join(known) if known else "no benches are installed")
        return
    if name not in known:
        typer.echo(f"there is no bench {name!r}; known: {', '.join(known) or 'none'}", err=True)
        raise typer.Exit(2)
    raise typer.Exit(show(run(known[name](), name), as_json=as_json, title=name))


def run(function: Bench, name: str) -> Sequence[Figure]:
    """Run a bench with a progress bar on standard error; what the bench prints (libraries do) goes there too."""
    console = Console(file=sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with redirect_stdout(sys.stderr), Progress(*columns, console=console, transient=True) as progress:
        job = progress.add_task(name, total=1.0)
        return function(lambda share, text: progress.update(job, completed=share, description=f"{name}: {text}"))


def _loader(module: str) -> Callable[[], Bench]:
    def load() -> Bench:
        loaded: Bench = importlib.import_module(module).bench
        return loaded

    return load
