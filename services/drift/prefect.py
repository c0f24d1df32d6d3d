"""Start and follow flow runs over Prefect's REST API, nothing more: the service needs no Prefect installed.

Prefect leaves a run "Running" for ever when its worker dies, so a run older than six hours (real time)
counts as ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Protocol, Self
from uuid import UUID

import httpx

from services.drift.limits import LIMITS

ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED", "CRASHED"})
FAILED = frozenset({"FAILED", "CRASHED"})


class FlowsUnavailable(RuntimeError):
    """Prefect did not do it; the message names the call and the remedy. Try again later."""


class FlowRuns(Protocol):
    """What deciding an alarm needs of a flow engine."""

    def start(self, deployment: str, parameters: dict[str, str], key: str) -> str:
        """Start a run of `flow/deployment`, once per `key`; returns its id."""

    def ended(self, run_id: str) -> bool:
        """Whether the run has ended, well or badly, or is unknown."""

    def failed(self, run_id: str) -> bool:
        """Whether the run is known to have failed; one that somebody cancelled has not."""


class PrefectFlows:
    """`FlowRuns` over HTTP. Use as a context manager."""

    def __init__(self, api_url: str, transport: httpx.BaseTransport | None = None) -> None:
        self._url = api_url
        self._http = httpx.Client(
            base_url=api_url.rstrip("/"),
            timeout=LIMITS.prefect_timeout_s,
            transport=transport,
            trust_env=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._http.close()

    def start(self, deployment: str, parameters: dict[str, str], key: str) -> str:
        found = self._call("GET", f"/deployments/name/{deployment}")
        if found.status_code == 404:
            raise FlowsUnavailable(f"Prefect knows no deployment {deployment!r}; start the flows' serve process")
        deployment_id = str(self._checked(found)["id"])
        body = {"parameters": parameters, "idempotency_key": key, "tags": ["drift"]}
        run = self._checked(self._call("POST", f"/deployments/{deployment_id}/create_flow_run", body))
        return str(UUID(str(run["id"])))

    def ended(self, run_id: str) -> bool:
        answer = self._call("GET", f"/flow_runs/{run_id}")
        if answer.status_code == 404:
            return True
        run = self._checked(answer)
        return run.get("state_type") in ENDED or _too_old(run.get("created"))

    def failed(self, run_id: str) -> bool:
        answer = self._call("GET", f"/flow_runs/{run_id}")
        return answer.status_code != 404 and self._checked(answer).get("state_type") in FAILED

    def _call(self, method: str, path: str, body: Mapping[str, object] | None = None) -> httpx.Response:
        try:
            return self._http.request(method, path, json=body)
        except httpx.TransportError as error:
            raise FlowsUnavailable(f"Prefect at {self._url} does not answer ({error}); it is tried again") from error

    def _checked(self, answer: httpx.Response) -> dict[str, object]:
        if not answer.is_success:
            raise FlowsUnavailable(f"Prefect answered {answer.status_code} to {answer.request.url.path}")
        document = answer.json()
        if not isinstance(document, dict):
            raise FlowsUnavailable(f"Prefect answered no object to {answer.request.url.path}")
        return document


def _too_old(created: object) -> bool:
    if not isinstance(created, str):
        return False
    return datetime.now(UTC) - datetime.fromisoformat(created) > timedelta(seconds=LIMITS.dead_flow_run_s)
