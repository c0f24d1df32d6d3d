"""A twin of the three Prefect routes that drift uses, behaving as Prefect 3.9 does (checked against the
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

        return app

    def _check_up(self) -> None:
        if self.down:
            raise HTTPException(503, "down")
