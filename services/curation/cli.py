"""`edgeloop curate`: which hard examples look alike and which would stay, over the platform's own HTTP API.

A plan changes nothing: it says what each cluster would keep. Exit status: 0 done, 1 the platform refused, is not
reachable or the run failed, 2 wrong use, 3 the run did not end within --timeout.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from services.curation.terminal import cluster_report, plan_report
from services.kit.clients import ServiceClient, ServiceError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    help="Hard examples: plan which to keep, explain a cluster.",
)
StateOption = Annotated[Path, typer.Option("--state", envvar="EDGELOOP_STATE_DIR", help="The platform's state folder.")]
UrlOption = Annotated[str, typer.Option("--url", envvar="EDGELOOP_BASE_URL", help="Address of the platform.")]
TokenOption = Annotated[str, typer.Option("--token", envvar="EDGELOOP_OPERATOR_TOKEN", help="Operator token.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

EXIT_REFUSED, EXIT_USAGE, EXIT_LATE = 1, 2, 3
DEFAULT_STATE = Path(".edgeloop")
POLL_S = 1.0
SHOWN = 50


@app.command("plan")
def plan(
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait for the run.")] = 330.0,
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Cluster the newest hard segments and say what each cluster would keep. Changes no segment."""
    with _platform(state, url, token) as platform:
        run = _finished(platform, platform.post("/v1/runs")["id"], timeout)
        if run["state"] == "failed":
            _fail(f"run {run['id']} failed: {run['error']}", EXIT_REFUSED)
        clusters = platform.get("/v1/clusters", run_id=run["id"], limit=SHOWN)["items"]
    if as_json:
        print(json.dumps({"run": run, "clusters": clusters}, indent=2))
    else:
        Console().print(plan_report(run, clusters))


@app.command("explain")
def explain(
    cluster: Annotated[str, typer.Argument(help="Cluster id, as `plan` shows it.")],
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """One cluster: how wide it is, whom it concerns, whether training covers it, which members would stay."""
    with _platform(state, url, token) as platform:
        found = platform.get(f"/v1/clusters/{cluster}")
    print(json.dumps(found, indent=2)) if as_json else Console().print(cluster_report(found))


def _finished(platform: ServiceClient, run_id: str, timeout: float) -> dict[str, Any]:  # Any: JSON
    """Wait until a run is done or failed."""
    end = time.monotonic() + timeout
    while True:
        run: dict[str, Any] = platform.get(f"/v1/runs/{run_id}")
        if run["state"] != "requested":
            return run
        if time.monotonic() >= end:
            _fail(f"run {run_id} still waits after {timeout:g} s; is the worker of queue `curation` up?", EXIT_LATE)
        time.sleep(POLL_S)


@contextmanager
def _platform(state: Path, url: str, token: str) -> Iterator[ServiceClient]:
    """A client of the platform; what options and environment leave open comes from `platform.json`."""
    known = _described(state / "platform.json")
    base, secret = url or known.get("base_url", ""), token or known.get("operator_token", "")
    if not base or not secret:
        _fail(f"no platform in {state}: start one with `edgeloop up`, or give --url and --token", EXIT_USAGE)
    try:
        with ServiceClient(f"{base.rstrip('/')}/curation", secret) as client:
            yield client
    except ServiceError as problem:
        _fail(str(problem), EXIT_REFUSED)


def _described(path: Path) -> dict[str, str]:
    try:
        document: dict[str, str] = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as problem:
        _fail(f"{path} is not readable ({problem}); give --url and --token", EXIT_USAGE)
    return document


def _fail(message: str, code: int) -> NoReturn:
    Console(stderr=True).print(f"[red]error[/] {message}", highlight=False)
    raise typer.Exit(code)
