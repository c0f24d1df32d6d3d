"""Decide an alarm and, if the policy says so, start the retraining flow.

The alarm row is the truth: a flow is started with the alarm's id as idempotency key before the row is
updated, so a crash between the two starts nothing twice. Whatever is down, the outbox brings the alarm
back.
"""

from __future__ import annotations

from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict
from sqlalchemy import select
from sqlalchemy.orm import Session

from contracts.wire.drift import AlarmAction
from services.drift.domain.decision import WEEK_S, Decision, Facts, decide
from services.drift.limits import DriftSettings
from services.drift.models import Alarm
from services.drift.prefect import FlowRuns
from services.kit.database import transaction
from services.kit.tracing import ongoing_traceparent


class StillWaiting(RuntimeError):
    """The alarm cannot be decided yet; the outbox tries again."""


class CoverageView(BaseModel):
    """The part of curation's coverage answer that a decision needs."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    created: float | None = None
    clusters: int = 0
    uncovered: int = 0


class Curation(Protocol):
    """The calls to the curation service: `services.kit.clients.ServiceClient` has them."""

    def get(self, path: str) -> Any: ...  # Any: JSON
    def post(self, path: str, body: Any = None) -> Any: ...  # Any: JSON


def decide_alarm(
    alarm_id: str, now: float, curation: Curation, flows: FlowRuns, settings: DriftSettings, deployment: str
) -> Decision | None:
    """Decide one alarm; None when it had been decided. Raises StillWaiting, or what a dependency raises."""
    with transaction() as session:
        alarm = session.get(Alarm, alarm_id)
        if alarm is None or alarm.action != AlarmAction.PENDING:
            return None
        facts = _facts(session, alarm, now, _coverage(curation, alarm.created), flows, settings)
    decision = decide(facts)
    run_id = None
    if decision.action is AlarmAction.RETRAIN:
        asked = {"alarm_id": alarm_id, "traceparent": ongoing_traceparent()}
        run_id = flows.start(deployment, asked, f"drift-alarm-{alarm_id}")
    _record(alarm_id, decision, run_id, now)
    if decision.action is AlarmAction.PENDING:
        raise StillWaiting(decision.reason)
    return decision


def _coverage(curation: Curation, raised_at: float) -> CoverageView:
    """Ask how well hard clusters are covered; where the clustering is older than the alarm, ask for a new
    one.
    """
    view = CoverageView.model_validate(curation.get("/curation/v1/coverage"))
    if view.created is None or view.created < raised_at:
        curation.post("/curation/v1/runs")
    return view


def _facts(
    session: Session,
    alarm: Alarm,
    now: float,
    coverage: CoverageView,
    flows: FlowRuns,
    settings: DriftSettings,
) -> Facts:
    started = session.scalars(
        select(Alarm)
        .where(
            Alarm.action == AlarmAction.RETRAIN.value,
            Alarm.decided > now - max(WEEK_S, settings.cool_down_hours * 3600),
        )
        .order_by(Alarm.decided.desc())
    ).all()
    return Facts(
        now=now,
        raised_at=alarm.created,
        coverage_at=coverage.created,
        clusters=coverage.clusters,
        uncovered=coverage.uncovered,
        retrained_at=tuple(row.decided for row in started if row.decided is not None),
        running=_running(started[0], flows) if started else None,
        failed=_failed(started[0], flows) if started else False,
        quality_fell=alarm.quality_fell,
        cool_down_s=settings.cool_down_hours * 3600,
        weekly_budget=settings.weekly_budget,
    )


def _running(last: Alarm, flows: FlowRuns) -> str | None:
    if last.flow_run_id is None or flows.ended(last.flow_run_id):
        return None
    return last.flow_run_id


def _failed(last: Alarm, flows: FlowRuns) -> bool:
    return last.flow_run_id is not None and flows.failed(last.flow_run_id)


def _record(alarm_id: str, decision: Decision, run_id: str | None, now: float) -> None:
    with transaction() as session:
        alarm = session.get_one(Alarm, alarm_id, with_for_update=True)
        if alarm.action != AlarmAction.PENDING:
            return
        alarm.action, alarm.reason = decision.action.value, decision.reason
        alarm.flow_run_id = run_id
        alarm.decided = None if decision.action is AlarmAction.PENDING else now
