"""Runs that a killed server left behind: Prefect keeps them "Running" for ever, so the next server takes them up again.

One server serves the deployment at a time (its state folder and `limit=1` allow no second), so at its start whatever
Prefect calls running is not. A run goes on where it stood: its steps are in the run folder.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

import httpx

LEFT = ("RUNNING", "PENDING")
MOST = 200
TIMEOUT_S = 10.0
WAIT_S, POLL_S = 120.0, 1.0


class PrefectSilent(Exception):
    """Prefect did not answer in time; the message says where."""


def take_up(
    api_url: str,
    deployment: str,
    transport: httpx.BaseTransport | None = None,
    patience_s: float = WAIT_S,
    sleep: Callable[[float], None] = time.sleep,
) -> list[str]:
    """Schedule every run of `deployment` (its name) that a dead server left; returns their ids.

    Raises PrefectSilent when Prefect does not answer within `patience_s` seconds.
    """
    deadline = time.monotonic() + patience_s
    with httpx.Client(base_url=api_url, timeout=TIMEOUT_S, transport=transport, trust_env=False) as client:
        while True:
            try:
                return [run for run in _left(client, deployment) if _schedule(client, run)]
            except httpx.HTTPError as error:
                if time.monotonic() >= deadline:
                    words = f"Prefect at {api_url} did not answer for {patience_s:.0f} s ({error})"
                    raise PrefectSilent(f"{words}; start it, or set PREFECT_API_URL") from error
                sleep(POLL_S)


def _left(client: httpx.Client, deployment: str) -> list[str]:
    body = {
        "limit": MOST,
        "deployments": {"name": {"any_": [deployment]}},
        "flow_runs": {"state": {"type": {"any_": list(LEFT)}}},
    }
    answer = client.post("/flow_runs/filter", json=body)
    answer.raise_for_status()
    return [str(run["id"]) for run in answer.json()]


def _schedule(client: httpx.Client, run: str) -> bool:
    state = {
        "type": "SCHEDULED",
        "name": "AwaitingRetry",
        "message": "the server of this flow was started anew; the run goes on where it stood",
        "state_details": {"scheduled_time": datetime.now(UTC).isoformat()},
    }
    answer = client.post(f"/flow_runs/{run}/set_state", json={"state": state, "force": True})
    answer.raise_for_status()
    return bool(answer.json().get("status") == "ACCEPT")
