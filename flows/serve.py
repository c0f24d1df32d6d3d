"""Serve the flow `retrain` to Prefect: by alarm, by night, by hand. One run at a time.

    python -m flows.serve

Needs PREFECT_API_URL, EDGELOOP_BASE_URL, EDGELOOP_SERVICE_TOKEN and EDGELOOP_STATE_DIR; `edgeloop up` sets them.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import httpx
from prefect import flow, get_run_logger
from prefect.schedules import Cron

from contracts.tracing import span, start_spans, start_trace, stop_spans
from flows.errors import NothingToDo
from flows.orphans import take_up
from flows.platform import Platform
from flows.retrain import new_key, run_retrain, state_folder
from flows.run_folder import Json
from flows.run_pulse import to_resume
from flows.steps.begun import settings_of

NAME = "retrain"
HEARTBEAT_S = 30
RESUME_WITHIN_S = 86_400.0
NIGHTLY = "30 3 * * *"
READY_WAIT_S = 120.0


@flow(name=NAME, log_prints=False, retries=1, retry_delay_seconds=5, persist_result=False)
def retrain_flow(
    alarm_id: str | None = None,
    budget_minutes: float | None = None,
    traceparent: str | None = None,
    asks: str | None = None,
    entropy: str | None = None,
    prune: float | None = None,
    prune_by: str | None = None,
    candidates: int | None = None,
    auto_release: bool | None = None,
) -> Json:
    """Retrain for an alarm (or for whatever is uncovered now). A repeated call for one alarm continues its run.

    Without an alarm a run that was killed or failed in the last day is finished first, as it was begun; what is given
    here is for a new run. `traceparent` is the trace of whoever asked; what the run causes goes on with it. The rest
    are the options of `edgeloop retrain`; one left out is as the server's environment has it.
    """
    start_trace(traceparent)
    start_spans("flows")  # here, since Prefect runs each run in a process of its own
    log = get_run_logger()
    platform = Platform.from_environment()
    last = [""]
    asked: dict[str, object] = {
        "budget_minutes": budget_minutes, "asks": asks, "entropy": entropy, "prune": prune, "prune_by": prune_by,
        "candidates": candidates, "auto_release": auto_release,
    }  # fmt: skip

    def report(what: str, share: float) -> None:
        line = f"{what} {10 * int(10 * share)} %"
        if line != last[0]:
            last[0] = line
            log.info(line)

    try:
        state = state_folder()
        stopped = None if alarm_id else to_resume(state, RESUME_WITHIN_S)
        if stopped:
            log.info("going on with run %s, which had stopped, as it was begun", stopped)
            asked = {}
        key = stopped or new_key(alarm_id)
        settings = settings_of(state / "runs" / key, **asked)
        with span(f"flow {NAME}", "consumer"):
            return run_retrain(key, state, platform, settings, report)
    except NothingToDo as nothing:
        log.info(str(nothing))
        return {"nothing": str(nothing)}
    finally:
        platform.close()
        stop_spans()


def main() -> None:
    """Register the deployment `retrain/retrain` and run what is asked of it until stopped.

    Prefect's own heartbeats are on, so that a run whose process died is seen as dead there as well.
    """
    os.environ.setdefault("PREFECT_FLOWS_HEARTBEAT_FREQUENCY", str(HEARTBEAT_S))
    ready_file = os.environ.get("EDGELOOP_READY_FILE")
    if ready_file:
        threading.Thread(target=_mark_when_registered, args=(Path(ready_file),), daemon=True).start()
    for run in take_up(os.environ["PREFECT_API_URL"], NAME):
        print(f"run {run} was left by a server that was killed; it goes on", file=sys.stderr)
    retrain_flow.serve(
        name=NAME,
        schedules=[Cron(NIGHTLY, timezone="UTC")],
        limit=1,
        pause_on_shutdown=False,
        print_starting_message=False,
    )


def _mark_when_registered(mark: Path) -> None:
    """Make the ready file as soon as Prefect knows the deployment."""
    url = f"{os.environ['PREFECT_API_URL']}/deployments/name/{NAME}/{NAME}"
    deadline = time.monotonic() + READY_WAIT_S
    while time.monotonic() < deadline:
        try:
            if httpx.get(url, timeout=5.0, trust_env=False).is_success:
                mark.write_text(str(os.getpid()))
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.3)


if __name__ == "__main__":
    main()
