"""Commands `edgeloop retrain` and `edgeloop provision`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from flows.data.errors import DataError
from flows.errors import FlowError, NothingToDo
from flows.platform import Platform
from flows.provision import provision as run_provision
from flows.retrain import new_key, run_retrain, state_folder
from flows.run_pulse import runs, to_resume
from flows.spread.spread import KINDS
from flows.steps.begun import settings_of
from flows.steps.budget import check_budget
from flows.steps.context import parse_steps
from flows.tasks.device import training_device

STATE_HELP = "State folder of the platform (the one given to `edgeloop up --state`)."
State = Annotated[Path | None, typer.Option("--state", help=STATE_HELP)]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def retrain(
    state: State = None,
    budget_minutes: Annotated[
        float | None, typer.Option(help="Minutes of learning; compiling and gating come on top.")
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option(help="Folder of videos, or a manifest, to learn from instead of the default clips.")
    ] = None,
    asks: Annotated[
        str | None, typer.Option(help="What fine-tuning asks for beside fidelity, like temporal=0.2,moments=0.02.")
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(help="Calibration set (`edgeloop corpus calibration`) that INT8 ranges must hold too."),
    ] = None,
    entropy: Annotated[
        str | None,
        typer.Option(help="Constants with fewer bits: auto (where worth it), on, off. Devices must read format 4."),
    ] = None,
    prune: Annotated[
        float | None,
        typer.Option(help="Leave at most this share of the chosen network, like 0.8; recovers in the same budget."),
    ] = None,
    prune_by: Annotated[
        str | None, typer.Option(help="Share of what: latency (predicted, of the largest frames) or parameters.")
    ] = None,
    candidates: Annotated[
        int | None,
        typer.Option(min=1, help="Networks to fine-tune, each with the whole budget; the best goes on."),
    ] = None,
    spread: Annotated[
        str | None,
        typer.Option(help=f"Who does the jobs of a run, with the same result: {KINDS}."),
    ] = None,
    task: Annotated[str | None, typer.Option(help="What is learned; tasks are installed as entry points.")] = None,
    key: Annotated[str | None, typer.Option(help="Continue the run with this name, as it was begun.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the newest run that stopped or failed, as it was begun.")
    ] = False,
    steps: Annotated[
        str | None,
        typer.Option(help="Learn by steps (adapt,fine-tune,quantise), not minutes: the same bytes each time."),
    ] = None,
    unlicensed: Annotated[
        bool, typer.Option("--unlicensed", help="Also learn from videos without a stated licence.")
    ] = False,
    listed: Annotated[bool, typer.Option("--list", help="Show the runs of the state folder and do nothing.")] = False,
    release: Annotated[
        bool | None,
        typer.Option("--release/--no-release", help="Start a rollout when the gate has passed; the default."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn from the uncovered hard clusters and start a staged release.

    Examples: edgeloop retrain --budget-minutes 4 · edgeloop retrain --corpus ~/videos --no-release ·
    edgeloop retrain --asks temporal=0.2 (less flicker) · edgeloop retrain --calibration var/calibration ·
    edgeloop retrain --resume (goes on where the newest run stopped) · edgeloop retrain --key hand-20260101-120000 ·
    edgeloop retrain --steps 300,1400,200 (the same bytes each time) ·
    edgeloop retrain --prune 0.8 --entropy auto (a smaller, faster network) ·
    edgeloop retrain --spread processes:4 --candidates 4 · edgeloop retrain --list
    """
    if listed:
        _show_runs(_state(state), as_json)
        return
    with _watched(as_json) as report:
        chosen = key or (_stopped(_state(state)) if resume else new_key(None))
        settings = settings_of(
            _state(state) / "runs" / chosen, budget_minutes=budget_minutes,
            corpus=str(corpus.resolve()) if corpus else None, auto_release=release, asks=asks,
            calibration=str(calibration.resolve()) if calibration else None,
            steps=parse_steps(steps) if steps else None, unlicensed=unlicensed or None, task=task, entropy=entropy,
            prune=prune, prune_by=prune_by, candidates=candidates, spread=spread,
        )  # fmt: skip
        check_budget(settings)
        device = training_device()
        result = run_retrain(chosen, _state(state), _platform(state), settings, report)
    if as_json:
        print(json.dumps(result, indent=1))
    else:
        seconds = {name: row.get("seconds", 0.0) for name, row in result["steps"].items()}
        took = ", ".join(f"{name} {spent:.0f} s" for name, spent in seconds.items())
        Console().print(f"[green]done[/] {result['key']} (training on {device}): {took}")


def provision(
    factory: Annotated[Path, typer.Argument(help="Where the factory bundle is written.")],
    state: State = None,
    as_json: AsJson = False,
) -> None:
    """Gate the seed model, mark it as production and write the devices' factory bundle.

    Example: edgeloop provision var/factory.elb --state var
    """
    with _watched(as_json) as report:
        build = run_provision(_state(state), _platform(state), factory, None, report)
    if as_json:
        print(build.model_dump_json(indent=1))
    else:
        Console().print(f"[green]provisioned[/] build {build.id}, {build.size_bytes / 1e3:.0f} kB at {factory}")


def _show_runs(state: Path, as_json: bool) -> None:
    found = runs(state)
    if as_json:
        print(json.dumps([asdict(beat) for beat in found], indent=1))
        return
    table = Table("run", "state", "step", "share", "last sign", "message")
    for beat in found:
        age = f"{max(0.0, time.time() - beat.at):.0f} s ago"
        table.add_row(beat.key, beat.state, beat.step, f"{beat.share:.0%}", age, beat.message[:80])
    Console().print(table if found else f"no run below {state / 'runs'}")


def _stopped(state: Path) -> str:
    found = to_resume(state, within_s=float("inf"))
    if found is None:
        raise FlowError(f"no run below {state / 'runs'} stopped or failed; leave out --resume to begin one")
    return found


@contextmanager
def _watched(quiet: bool) -> Iterator[Callable[[str, float], None]]:
    columns = (TextColumn("{task.description}", justify="left"), BarColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=Console(stderr=True), disable=quiet) as bar:
            task = bar.add_task("starting", total=1.0)
            yield lambda what, share: bar.update(task, description=what, completed=share)
    except NothingToDo as nothing:
        Console(stderr=True).print(str(nothing))
        raise typer.Exit(0) from nothing
    except (FlowError, DataError) as error:
        Console(stderr=True).print(f"[red]error[/] {error}")
        raise typer.Exit(1) from error


def _state(state: Path | None) -> Path:
    return state or state_folder()


def _platform(state: Path | None) -> Platform:
    described = _state(state) / "platform.json"
    if "EDGELOOP_SERVICE_TOKEN" not in os.environ and described.exists():
        raw = json.loads(described.read_text())
        return Platform(raw["base_url"], raw["service_token"])
    return Platform.from_environment()
