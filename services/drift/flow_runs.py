"""Flow runs as people look at them: over Prefect's REST API, read and, where one failed, asked for again.

Prefect knows no users; these calls stand behind this service's scopes and its audit trail. A run is named by its UUID
only, so nothing else of Prefect can be reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Self
from uuid import UUID

import httpx
from pydantic import Field, TypeAdapter, ValidationError

from contracts.wire.base import Answer
from contracts.wire.flow_runs import FlowLine, FlowRunDetail, FlowRunInfo
from services.drift.limits import LIMITS
from services.drift.prefect import FAILED, FlowsUnavailable

Json = Mapping[str, Any]  # Any: JSON of Prefect
LEVELS = ((40, "error"), (30, "warning"), (20, "info"))


class _State(Answer):
    message: str | None = None


class _Run(Answer):
    id: UUID
    name: str = ""
    state_type: str | None = None
    state_name: str | None = None
    state: _State | None = None
    expected_start_time: datetime | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    total_run_time: float = 0.0
    run_count: int = 0
    deployment_id: UUID | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)  # Any: JSON
    tags: tuple[str, ...] = ()


class _Line(Answer):
    timestamp: datetime
    level: int = 20
    message: str = ""


RUNS = TypeAdapter(list[_Run])
LINES = TypeAdapter(list[_Line])


class NoSuchFlowRun(LookupError):
    """Prefect knows no run of this id."""


class NotRetried(RuntimeError):
    """Prefect, or the run's state, does not allow it; the message says why."""


class FlowRunView:
    """Prefect's runs over HTTP. Use as a context manager; raises FlowsUnavailable where Prefect does not answer."""

    def __init__(self, api_url: str, transport: httpx.BaseTransport | None = None) -> None:
        self._url = api_url
        self._http = httpx.Client(
            base_url=api_url.rstrip("/"), timeout=LIMITS.prefect_view_s, transport=transport, trust_env=False
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._http.close()

    def runs(self, limit: int, offset: int) -> list[FlowRunInfo]:
        """Runs, the newest first."""
        body = {"sort": "EXPECTED_START_TIME_DESC", "limit": limit, "offset": offset}
        return [_info(run) for run in _parsed(RUNS, self._post("/flow_runs/filter", body))]

    def run(self, run_id: UUID) -> FlowRunDetail:
        """One run with its newest lines; raises NoSuchFlowRun."""
        found = self._run(run_id)
        wanted = {"flow_run_id": {"any_": [str(run_id)]}, "level": {"ge_": 20}}
        body = {"logs": wanted, "sort": "TIMESTAMP_DESC", "limit": LIMITS.flow_lines}
        lines = _parsed(LINES, self._post("/logs/filter", body))
        return FlowRunDetail(**_info(found).model_dump(), lines=tuple(_line(one) for one in reversed(lines)))

    def retry(self, run_id: UUID) -> FlowRunInfo:
        """Let a run that failed or crashed go on; raises NoSuchFlowRun and NotRetried."""
        found = self._run(run_id)
        if found.state_type not in FAILED:
            raise NotRetried(
                f"run {run_id} is {found.state_name or 'in an unknown state'}; only a failed one is retried"
            )
        if found.deployment_id is None:
            raise NotRetried(f"run {run_id} has no deployment; nobody would pick it up, start it by hand")
        state = {"type": "SCHEDULED", "name": "AwaitingRetry", "message": "asked for by an operator"}
        answer = self._post(f"/flow_runs/{run_id}/set_state", {"state": state, "force": False})
        told = answer.json()
        if not isinstance(told, dict) or told.get("status") != "ACCEPT":
            details = told.get("details") if isinstance(told, dict) else None
            reason = details.get("reason") if isinstance(details, dict) else None
            raise NotRetried(f"Prefect does not retry run {run_id}: {str(reason or 'no reason given')[:200]}")
        return _info(self._run(run_id))

    def _run(self, run_id: UUID) -> _Run:
        answer = self._call("GET", f"/flow_runs/{run_id}")
        if answer.status_code == 404:
            raise NoSuchFlowRun(f"Prefect knows no run {run_id}; it may have been deleted there")
        try:
            return _Run.model_validate_json(self._checked(answer).content)
        except ValidationError as error:
            raise FlowsUnavailable(
                f"Prefect answered something else than a run ({error.error_count()} faults)"
            ) from error

    def _post(self, path: str, body: Json) -> httpx.Response:
        return self._checked(self._call("POST", path, body))

    def _call(self, method: str, path: str, body: Json | None = None) -> httpx.Response:
        try:
            return self._http.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise FlowsUnavailable(f"Prefect does not answer ({type(error).__name__}); is it running?") from error

    def _checked(self, answer: httpx.Response) -> httpx.Response:
        if not answer.is_success:
            raise FlowsUnavailable(f"Prefect answered {answer.status_code} to {answer.request.url.path}")
        return answer


def _parsed(adapter: TypeAdapter[Any], answer: httpx.Response) -> Any:  # Any: the adapter's type
    try:
        return adapter.validate_json(answer.content)
    except ValidationError as error:
        raise FlowsUnavailable(f"Prefect answered something else ({error.error_count()} faults)") from error


def _info(run: _Run) -> FlowRunInfo:
    alarm = run.parameters.get("alarm_id")
    return FlowRunInfo(
        id=str(run.id),
        name=run.name[:200],
        state=(run.state_type or "UNKNOWN").lower(),
        state_name=(run.state_name or "")[:80],
        message=((run.state.message if run.state else None) or "")[:400],
        expected=_seconds(run.expected_start_time),
        started=_seconds(run.start_time),
        ended=_seconds(run.end_time),
        run_s=max(0.0, run.total_run_time),
        runs=run.run_count,
        alarm=str(alarm)[:200] if alarm else "",
        tags=run.tags[:8],
        retryable=run.state_type in FAILED and run.deployment_id is not None,
    )


def _line(line: _Line) -> FlowLine:
    level = next((name for least, name in LEVELS if line.level >= least), "debug")
    return FlowLine(at=line.timestamp.timestamp(), level=level, text=line.message[:400])


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
