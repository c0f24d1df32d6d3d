"""Serve the flow `retrain` to Prefect: by alarm, by night, by hand. One run at a time.

    python -m flows.serve

Needs PREFECT_API_URL, EDGELOOP_BASE_URL, EDGELOOP_SERVICE_TOKEN and EDGELOOP_STATE_DIR; `edgeloop up` sets them.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import httpx
from prefect import flow, get_run_logger
from prefect.schedules import Cron

from contracts.tracing import span, start_spans, start_trace, stop_spans
from flows.errors import NothingToDo
from flows.platform import Platform
from flows.retrain import new_key, run_retrain, state_folder
from flows.run_folder import Json
from flows.steps.context import RetrainSettings

NAME = "retrain"
NIGHTLY = "30 3 * * *"
READY_WAIT_S = 120.0


@flow(name=NAME, log_prints=False, retries=1, retry_delay_seconds=5, persist_result=False)
def retrain_flow(
    alarm_id: str | None = None, budget_minutes: float | None = None, traceparent: str | None = None
) -> Json:
    """Retrain for an alarm (or for whatever is uncovered now). A repeated call for one alarm continues its run.

    `traceparent` is the trace of whoever asked; what the run causes goes on with it.
    """
    start_trace(traceparent)
    start_spans("flows")  # here, since Prefect runs each run in a process of its own
    log = get_run_logger()
    platform = Platform.from_environment()
    last = [""]

    def report(what: str, share: float) -> None:
        line = f"{what} {10 * int(10 * share)} %"
        if line != last[0]:
            last[0] = line
            log.info(line)

    try:
        settings = RetrainSettings.from_environment(budget_minutes=budget_minutes)
        with span(f"flow {NAME}", "consumer"):
            return run_retrain(new_key(alarm_id), state_folder(), platform, settings, report)
    except NothingToDo as nothing:
        log.info(str(nothing))
        return {"nothing": str(nothing)}
    finally:
        platform.close()
        stop_spans()


def main() -> None:
    """Register the deployment `retrain/retrain` and run what is asked of it until stopped."""
    ready_file = os.environ.get("EDGELOOP_READY_FILE")
    if ready_file:
        threading.Thread(target=_mark_when_registered, args=(Path(ready_file),), daemon=True).start()
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
