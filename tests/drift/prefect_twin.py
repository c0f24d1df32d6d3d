"""A twin of the Prefect routes that drift uses, behaving as Prefect 3.9 does (checked against the
real one).
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from fastapi import FastAPI, HTTPException


@dataclass
class PrefectTwin:
    """Deployments by name; flow runs by id; a repeated idempotency key gives the first run."""

    deployments: dict[str, str] = field(default_factory=lambda: {"retrain/retrain": str(uuid4())})
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    lines: list[dict[str, Any]] = field(default_factory=list)
    stubborn: str = ""
    down: bool = False

    def app(self) -> FastAPI:
        """The routes as an application."""
        app = FastAPI()

        @app.get("/api/deployments/name/{flow}/{name}")
        def read_deployment(flow: str, name: str) -> dict[str, Any]:
            self._check_up()
            found = self.deployments.get(f"{flow}/{name}")
            if found is None:
                raise HTTPException(404, "Deployment not found")
            return {"id": found, "name": name}

        @app.post("/api/deployments/{deployment_id}/create_flow_run", status_code=201)
        def create_flow_run(deployment_id: str, body: dict[str, Any]) -> dict[str, Any]:
            self._check_up()
            assert deployment_id in self.deployments.values()
            for run in self.runs.values():
                if run["idempotency_key"] == body["idempotency_key"]:
                    return run
            run_id = str(uuid4())
            created = datetime.now(UTC).isoformat()
            self.runs[run_id] = {**body, "id": run_id, "state_type": "SCHEDULED", "created": created}
            return self.runs[run_id]

        @app.get("/api/flow_runs/{run_id}")
        def read_flow_run(run_id: str) -> dict[str, Any]:
            self._check_up()
            if run_id not in self.runs:
                raise HTTPException(404, "Flow run not found")
            return self.runs[run_id]

        @app.post("/api/flow_runs/filter")
        def filter_flow_runs(body: dict[str, Any]) -> list[dict[str, Any]]:
            self._check_up()
            assert body["sort"] == "EXPECTED_START_TIME_DESC"
            assert body["limit"] <= 201
            newest = sorted(self.runs.values(), key=lambda run: str(run["expected_start_time"]), reverse=True)
            return newest[body["offset"] : body["offset"] + body["limit"]]

        @app.post("/api/logs/filter")
        def filter_logs(body: dict[str, Any]) -> list[dict[str, Any]]:
            self._check_up()
            wanted = body["logs"]["flow_run_id"]["any_"]
            found = [line for line in self.lines if line["flow_run_id"] in wanted and line["level"] >= 20]
            return sorted(found, key=lambda line: str(line["timestamp"]), reverse=True)[: body["limit"]]

        @app.post("/api/flow_runs/{run_id}/set_state", status_code=201)
        def set_state(run_id: str, body: dict[str, Any]) -> dict[str, Any]:
            self._check_up()
            state = body["state"]
            if self.stubborn:
                return {"state": None, "status": "ABORT", "details": {"type": "abort_details", "reason": self.stubborn}}
            assert state["type"] == "SCHEDULED"
            assert not body["force"]
            self.runs[run_id].update(state_type=state["type"], state_name=state["name"], state=state)
            return {"state": state, "status": "ACCEPT", "details": {"type": "accept_details"}}

        return app

    def _check_up(self) -> None:
        if self.down:
            raise HTTPException(503, "down")
