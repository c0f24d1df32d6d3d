"""`edgeloop curate`: which hard examples look alike and which would stay, over the platform's own HTTP API.

    edgeloop curate plan                              what each cluster would keep; changes nothing
    edgeloop curate explain 3f2a-0                    one cluster
    edgeloop curate apply 3f2a --digest 5d41...       let go of the rest, exactly as `plan` said

Exit status: 0 done, 1 the platform refused, is not
reachable or the run failed, 2 wrong use, 3 the run did not end within --timeout.
"""

from __future__ import annotations

import json
import time
from typing import Annotated, Any

import typer
from rich.console import Console

from services.curation.terminal import applied_report, cluster_report, plan_report
from services.kit.clients import ServiceClient
from services.kit.operator_cli import (
    DEFAULT_STATE,
    EXIT_REFUSED,
    JsonOption,
    StateOption,
    TokenOption,
    UrlOption,
    fail,
    platform_client,
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    help="Hard examples: plan which to keep, explain a cluster, apply the plan.",
)

SERVICE = "curation"
EXIT_LATE = 3
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
    with platform_client(SERVICE, state, url, token) as platform:
        run = _finished(platform, platform.post("/v1/runs")["id"], timeout)
        if run["state"] == "failed":
            fail(f"run {run['id']} failed: {run['error']}", EXIT_REFUSED)
        clusters = platform.get("/v1/clusters", run_id=run["id"], limit=SHOWN)["items"]
    if as_json:
        print(json.dumps({"run": run, "clusters": clusters}, indent=2))
    else:
        Console().print(plan_report(run, clusters))


@app.command("apply")
def apply(
    run: Annotated[str, typer.Argument(help="Run id, as `plan` shows it.")],
    digest: Annotated[str, typer.Option("--digest", help="The plan's digest, as `plan` shows it.")],
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Let go of the segments that a plan does not keep. Refused when the plan is stale or not the one that was read.

    Example: edgeloop curate apply 3f2a9c --digest 5d41402abc...
    """
    with platform_client(SERVICE, state, url, token) as platform:
        done = platform.post(f"/v1/runs/{run}/apply", {"digest": digest})
    print(json.dumps(done, indent=2)) if as_json else Console().print(applied_report(done))


@app.command("explain")
def explain(
    cluster: Annotated[str, typer.Argument(help="Cluster id, as `plan` shows it.")],
    state: StateOption = DEFAULT_STATE,
    url: UrlOption = "",
    token: TokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """One cluster: how wide it is, whom it concerns, whether training covers it, which members would stay."""
    with platform_client(SERVICE, state, url, token) as platform:
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
            fail(f"run {run_id} still waits after {timeout:g} s; is the worker of queue `curation` up?", EXIT_LATE)
        time.sleep(POLL_S)
