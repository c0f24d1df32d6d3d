"""`edgeloop corpus`: from a folder of videos to a pinned corpus, and from a corpus to a calibration set."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from flows.data.calibration.build import CalibrationPlan, build_set, write_set
from flows.data.calibration.coverage import Need
from flows.data.corpus import Split, default_corpus
from flows.data.errors import DataError
from flows.data.intake.manifest import groups_of, open_corpus, open_manifest, write_manifest
from flows.data.intake.survey import survey

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_show_locals=False)
AsJson = Annotated[bool, typer.Option("--json", help="Print as JSON.")]


@app.callback()
def corpus() -> None:
    """Videos to learn from: look at a folder, pin it, check it, make a calibration set.

    Examples: `edgeloop corpus build ~/videos`, `edgeloop corpus check ~/videos/corpus.json`,
    `edgeloop retrain --corpus ~/videos/corpus.json`.
    """


@app.command()
def build(
    folder: Annotated[Path, typer.Argument(help="Folder of videos, with LICENCES.json and perhaps PEOPLE.json.")],
    out: Annotated[Path | None, typer.Option(help="Manifest to write, in that folder; corpus.json by default.")] = None,
    hold_out: Annotated[list[str] | None, typer.Option(help="Person or scene to judge by; may be repeated.")] = None,
    unlicensed: Annotated[bool, typer.Option(help="Use videos whose licence nobody stated.")] = False,
    as_json: AsJson = False,
) -> None:
    """Read every video once, split by person or scene, write a manifest, and say what is odd or left out.

    Examples: `edgeloop corpus build ~/videos` · `edgeloop corpus build ~/videos --hold-out carol --json`
    """
    with watched(as_json) as progress:
        found = survey(folder, held_out=hold_out or (), unlicensed=unlicensed, progress=progress)
        path = out or folder / "corpus.json"
        write_manifest(found, path)
    told = {
        "manifest": str(path),
        "corpus_sha256": found.corpus.digest(),
        "train": len(found.corpus.of(Split.TRAIN)),
        "held_out": len(found.corpus.of(Split.HELD_OUT)),
        "left_out": len(found.left_out),
        "findings": [str(finding) for finding in found.findings],
    }
    if as_json:
        typer.echo(json.dumps(told, indent=1))
        return
    for finding in found.findings:
        typer.echo(str(finding))
    typer.echo(
        f"{path}: {told['train']} scenes to learn from, {told['held_out']} to judge by, {told['left_out']} left out"
    )


@app.command()
def check(
    manifest: Annotated[Path, typer.Argument(help="Manifest that `edgeloop corpus build` wrote.")],
    as_json: AsJson = False,
) -> None:
    """Compare every file with the manifest's hash; exit code 1 when one is gone or was changed.

    Example: `edgeloop corpus check ~/videos/corpus.json`
    """
    with watched(as_json):
        found = open_manifest(manifest)
    told = {"clips": len(found.clips), "corpus_sha256": found.digest()}
    typer.echo(
        json.dumps(told) if as_json else f"{manifest}: {told['clips']} clips as they were, {told['corpus_sha256']}"
    )


@app.command()
def calibration(
    out: Annotated[
        Path, typer.Argument(help="Folder to write: a lossless video for each fault, report.json, report.md.")
    ],
    corpus: Annotated[Path | None, typer.Option(help="Manifest or folder, instead of the default clips.")] = None,
    frames: Annotated[int, typer.Option(min=1, max=100_000, help="Frames to make, at least.")] = 2_000,
    seed: Annotated[int, typer.Option(min=0, help="Another seed is another set.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Make a de-identified calibration set from the training side and judge its coverage.

    Exit code 2 when a rule is missed.

    Examples: `edgeloop corpus calibration var/calibration --corpus ~/videos/corpus.json` ·
    `edgeloop corpus calibration var/calibration --frames 4000 --json`
    """
    with watched(as_json) as progress:
        videos = open_corpus(corpus) if corpus else default_corpus()
        groups = groups_of(corpus) if corpus and corpus.is_file() else {}
        made = build_set(videos, groups, CalibrationPlan(Need(frames=frames), seed=seed), progress=progress)
        report = write_set(made, out)
    typer.echo(json.dumps(report, indent=1) if as_json else (out / "report.md").read_text())
    if not made.ok:
        raise typer.Exit(2)


@contextmanager
def watched(quiet: bool) -> Iterator[Callable[[str, float], None]]:
    """A progress bar, and messages instead of tracebacks."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<40}"), BarColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=console, transient=True, disable=quiet) as bar:
            row = bar.add_task("starting", total=1.0)
            yield lambda what, share: bar.update(row, description=what, completed=share)
    except DataError as error:
        console.print(f"[red]corpus:[/] {error}", highlight=False, soft_wrap=True)
        raise typer.Exit(1) from error
