"""The drift service: cohorts, alarms, settings, runs of the flow engine."""

from __future__ import annotations

from fastapi import APIRouter

from contracts.wire import Cohort, CohortList, DriftAlarmList, DriftStanding, DriftState
from tests.dashboard.twin.state import EVIL, NOW, Refusal, Twin


def drift_routes(twin: Twin) -> APIRouter:
    """The drift service: cohorts, alarms, settings, runs of the flow engine."""
    router = APIRouter()

    @router.get("/drift/v1/flow-runs")
    def flow_runs(limit: int, cursor: int = 0) -> dict[str, object]:
        end = cursor + limit
        return {"items": twin.flows[cursor:end], "next_cursor": str(end) if end < len(twin.flows) else None}

    @router.get("/drift/v1/flow-runs/{run_id}")
    def flow_run(run_id: str) -> dict[str, object]:
        found = next((run for run in twin.flows if run["id"] == run_id), None)
        if found is None:
            raise Refusal(404, f"Prefect knows no run {run_id}")
        lines = [{"at": NOW, "level": "info", "text": f"search 40 % {EVIL}"}]
        return {**found, "lines": [*lines, {"at": NOW + 9, "level": "error", "text": "step train failed: disk full"}]}

    @router.post("/drift/v1/flow-runs/{run_id}/retry")
    def retry_flow(run_id: str, body: dict[str, str]) -> dict[str, object]:
        found = next(run for run in twin.flows if run["id"] == run_id)
        if not found["retryable"]:
            raise Refusal(409, f"run {run_id} is Completed; only a failed one is retried")
        twin.sent.append(("retry", body["reason"]))
        found.update(state="scheduled", state_name="AwaitingRetry", retryable=False)
        return found

    @router.get("/drift/v1/settings")
    def drift_settings() -> dict[str, object]:
        shown = [("z_threshold", 3.5, 3.5, "sigma-equivalent", True), ("window_days", 4.0, 3.0, "days", False)]
        names = ("name", "value", "default", "meaning", "by_cohort")
        return {"items": [dict(zip(names, row, strict=True)) for row in shown]}

    @router.get("/drift/v1/thresholds")
    def thresholds(limit: int, cohorts: str = "") -> dict[str, object]:
        wanted = [one for one in twin.thresholds if cohorts in ("", one["cohorts"])]
        return {"items": wanted[:limit], "next_cursor": None}

    @router.post("/drift/v1/thresholds")
    def change_threshold(body: dict[str, object]) -> dict[str, object]:
        row = {**body, "id": len(twin.thresholds) + 1, "author": "operator:ada", "created": NOW}
        twin.thresholds.insert(0, row)
        return row

    @router.get("/drift/v1/cohorts")
    def cohorts(limit: int, cursor: int = 0) -> CohortList:
        latest = {row.cohort: row for row in twin.days}
        end = cursor + limit
        return CohortList(
            items=tuple(
                Cohort(cohort=name, latest=latest[name], alarmed=latest[name].state is DriftState.SEVERE)
                for name in sorted(latest)[cursor:end]
            ),
            next_cursor=str(end) if end < len(latest) else None,
        )

    @router.get("/drift/v1/standing")
    def drift_standing() -> DriftStanding:
        latest = {row.cohort: row for row in twin.days}
        severe = sum(row.state is DriftState.SEVERE for row in latest.values())
        loudest = sorted(latest.values(), key=lambda row: (-(row.z or 0.0), row.cohort))
        shown = tuple(
            Cohort(cohort=row.cohort, latest=row, alarmed=row.state is DriftState.SEVERE) for row in loudest[:20]
        )
        return DriftStanding(
            cohorts=len(latest), severe=severe, alarmed=severe, loudest=shown, alarms=tuple(twin.alarms)
        )

    @router.get("/drift/v1/series")
    def series(
        limit: int, from_day: int, cohort: str = "", from_cohort: str = "", to_cohort: str = "~", cursor: int = 0
    ) -> dict[str, object]:
        if from_cohort:
            twin.ranges.append((from_cohort, to_cohort))
        rows = [
            row.model_dump(mode="json")
            for row in twin.days
            if row.day >= from_day and cohort in ("", row.cohort) and from_cohort <= row.cohort <= to_cohort
        ]
        end = cursor + limit
        return {"items": rows[cursor:end], "next_cursor": str(end) if end < len(rows) else None}

    @router.get("/drift/v1/loudest")
    def loudest(days: int, cohorts: int) -> dict[str, object]:
        top: dict[str, float] = {}
        for row in twin.days:
            top[row.cohort] = max(top.get(row.cohort, 0.0), row.z or 0.0)
        names = sorted(top, key=lambda name: (-top[name], name))[:cohorts]
        last = max((row.day for row in twin.days), default=0)
        shown = [row for row in twin.days if row.cohort in names and row.day > last - days]
        return {"items": [row.model_dump(mode="json") for row in shown]}

    @router.get("/drift/v1/alarms")
    def alarms(cohort: str = "") -> DriftAlarmList:
        return DriftAlarmList(items=tuple(one for one in twin.alarms if not cohort or cohort in one.cohorts))

    return router
