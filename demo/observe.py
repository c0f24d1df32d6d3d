"""What can be seen from outside: the platform's public answers and the fleet's status file."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

Json = dict[str, Any]


@dataclass(frozen=True)
class Sight:
    """One look at everything."""

    fleet: Json = field(default_factory=dict)
    alarms: list[Json] = field(default_factory=list)
    cohorts: list[Json] = field(default_factory=list)
    builds: list[Json] = field(default_factory=list)
    rollouts: list[Json] = field(default_factory=list)
    coverage: Json = field(default_factory=dict)
    flow: str = ""

    def build(self, name: str) -> Json | None:
        """The build with this name."""
        return next((build for build in self.builds if build["name"] == name), None)

    def rollout(self, digest: str) -> Json | None:
        """The rollout of a bundle."""
        return next((rollout for rollout in self.rollouts if rollout["digest"] == digest), None)


class Observer:
    """Looks with the operator's token but never acts with it. A failed look gives the last one."""

    def __init__(self, base_url: str, token: str, prefect_api: str, fleet_status: Path) -> None:
        self._http = httpx.Client(
            base_url=base_url, headers={"Authorization": f"Bearer {token}"}, timeout=15.0, trust_env=False
        )
        self._prefect = prefect_api
        self._status = fleet_status
        self._last: dict[str, Any] = {}  # Any: JSON

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    def look(self) -> Sight:
        """Ask for everything that the view and the waits need."""
        return Sight(
            fleet=self._fleet(),
            alarms=self._items("/drift/v1/alarms"),
            cohorts=self._items("/drift/v1/cohorts"),
            builds=self._items("/builds/v1/builds"),
            rollouts=self._items("/releases/v1/rollouts"),
            coverage=self._get("/curation/v1/coverage") or {},
            flow=self._flow_state(),
        )

    def series(self) -> list[Json]:
        """All cohort-days."""
        return self._all("/drift/v1/series")

    def devices(self) -> list[Json]:
        """All devices as the platform last heard of them."""
        return self._all("/releases/v1/devices")

    def audit(self) -> list[Json]:
        """The audit trail, newest first."""
        return self._all("/releases/v1/audit")

    def rollout(self, rollout_id: str) -> Json:
        """One rollout in full."""
        return self._get(f"/releases/v1/rollouts/{rollout_id}") or {}

    def _fleet(self) -> Json:
        with contextlib.suppress(OSError, ValueError):
            self._last["fleet"] = json.loads(self._status.read_text())
        found: Json = self._last.get("fleet", {})
        return found

    def _items(self, path: str) -> list[Json]:
        found = self._get(f"{path}?limit=100")
        return list(found["items"]) if found else []

    def _all(self, path: str) -> list[Json]:
        items: list[Json] = []
        cursor = ""
        while True:
            page = self._get(f"{path}?limit=200{cursor}")
            if page is None:
                return items
            items += page["items"]
            if not page.get("next_cursor"):
                return items
            cursor = f"&cursor={page['next_cursor']}"

    def _get(self, path: str) -> Json | None:
        try:
            answer = self._http.get(path)
            if answer.is_success:
                self._last[path] = answer.json()
        except (httpx.HTTPError, ValueError):
            pass
        found: Json | None = self._last.get(path)
        return found

    def _flow_state(self) -> str:
        try:
            answer = httpx.post(
                f"{self._prefect}/flow_runs/filter",
                json={
                    "limit": 1,
                    "sort": "EXPECTED_START_TIME_DESC",
                    "flow_runs": {"state": {"type": {"not_any_": ["SCHEDULED"]}}},
                },
                timeout=10.0,
                trust_env=False,
            )
            runs = answer.json() if answer.is_success else []
            return str(runs[0]["state_name"]) if runs else ""
        except (httpx.HTTPError, ValueError, KeyError, IndexError):
            return ""
