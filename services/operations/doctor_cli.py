"""`edgeloop doctor`: is this installation well?

Exit status: 0 well, 1 a check failed (with --strict: or warned), 2 wrong use.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from services.kit.operator_cli import DEFAULT_STATE, EXIT_USAGE, JsonOption, StateOption, fail
from services.kit.settings import settings
from services.operations.doctor import CHECKS, Finding, State, examine

EXIT_SICK = 1
COLOURS = {State.OK: "green", State.WARNING: "yellow", State.FAILED: "bold red", State.SKIPPED: "dim"}
FROM_STATE = {
    "EDGELOOP_DATABASE_URL": "database_url",
    "EDGELOOP_REDIS_URL": "redis_url",
    "EDGELOOP_BASE_URL": "base_url",
    "EDGELOOP_SERVICE_TOKEN": "service_token",
    "EDGELOOP_PREFECT_API_URL": "prefect_api_url",
    "EDGELOOP_MLFLOW_TRACKING_URI": "mlflow_url",
}


def doctor(
    state: StateOption = DEFAULT_STATE,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as failures.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check an installation: database, Redis, object store, MLflow, Prefect, clocks, disk, tokens, update metadata,
    workers. Says what is wrong and what to do.

    Reads EDGELOOP_* like every process; where they are not set, `platform.json` of the state folder of `edgeloop up`.

    Examples: edgeloop doctor | edgeloop doctor --state .edgeloop --json | edgeloop doctor --strict
    """
    _use(state)
    found: list[Finding] = []
    with Console(stderr=True).status("checking") as status:
        for number, finding in enumerate(examine(), 1):
            found.append(finding)
            status.update(f"checking {number} of {len(CHECKS)}: {finding.check} {finding.state.value}")
    bad = (State.FAILED, State.WARNING) if strict else (State.FAILED,)
    ok = not any(finding.state in bad for finding in found)
    if as_json:
        print(json.dumps({"ok": ok, "checks": [asdict(finding) for finding in found]}, indent=2))
    else:
        _print(found)
    if not ok:
        raise typer.Exit(EXIT_SICK)


def _use(state: Path) -> None:
    """Take what the environment does not say from the state folder of an embedded platform."""
    path = state / "platform.json"
    if "EDGELOOP_DATABASE_URL" in os.environ or not path.exists():
        return
    try:
        described = json.loads(path.read_text())
    except (OSError, ValueError) as problem:
        fail(f"{path} is not readable ({problem}); set EDGELOOP_DATABASE_URL and the others", EXIT_USAGE)
    os.environ["EDGELOOP_STATE_DIR"] = str(state.absolute())
    for variable, key in FROM_STATE.items():
        if described.get(key):
            os.environ.setdefault(variable, str(described[key]))
    settings.cache_clear()


def _print(found: list[Finding]) -> None:
    table = Table("check", "state", "detail", "what to do")
    for finding in found:
        colour = COLOURS[finding.state]
        remedy = finding.remedy if finding.state in (State.FAILED, State.WARNING) else ""
        table.add_row(finding.check, f"[{colour}]{finding.state.value}[/]", finding.detail, remedy)
    Console().print(table)
