"""Background work of drift: take reports, fold, judge, decide alarms. Every task may be repeated at any
point.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import structlog

from contracts.clock import clock_from_environment
from services.drift import calibrate, ingest, rebase, retrain, service
from services.drift.evaluate import TOPIC
from services.drift.limits import LIMITS, drift_settings
from services.drift.prefect import PrefectFlows
from services.kit.clients import ServiceClient
from services.kit.database import transaction
from services.kit.outbox import handler
from services.kit.settings import settings
from services.kit.streams import StreamMessage, consume_waiting
from services.kit.tasks import beat, task

STREAM = "telemetry.reports"
GROUP = "drift"

log = structlog.get_logger(__name__)


@beat("drift.ingest", seconds=2)
@task(queue="drift", time_limit=60)
def ingest_reports() -> int:
    """Take waiting reports from the stream, many in a transaction, and fold them into their cohort-days."""
    taken = consume_waiting(STREAM, GROUP, _take, LIMITS.batch, LIMITS.ingest_for_s)
    service.fold_waiting()
    return taken


@beat("drift.evaluate", seconds=3)
@task(queue="drift", time_limit=60)
def evaluate_complete_days() -> int:
    """Judge every complete day that changed."""
    with transaction() as session:
        run = service.evaluate_pending(session, clock_from_environment().now(), drift_settings())
    for embedding_id, day in run.days:
        log.info("drift_day_judged", embedding_id=embedding_id, day=day)
    for alarm_id in run.alarms:
        log.warning("drift_alarm_raised", alarm_id=alarm_id)
    return len(run.days)


@beat("drift.sweep", seconds=300)
@task(queue="drift", time_limit=60)
def sweep_old_reports() -> int:
    """Refuse reports that waited too long for their observer, forget old natural keys."""
    with transaction() as session:
        return ingest.sweep(session, clock_from_environment().now())


@beat("drift.rebase", seconds=30)
@task(queue="drift", time_limit=60)
def notice_releases() -> int:
    """Remember rollouts that completed, so that their cohorts get new references."""
    chosen = settings()
    with ServiceClient(chosen.base_url, chosen.service_token) as releases:
        completed = rebase.completed_rollouts(releases)
    with transaction() as session:
        new = rebase.remember(session, completed, clock_from_environment().now())
    if new:
        log.info("drift_releases_noticed", rollouts=new)
    return new


@beat("drift.calibrate", seconds=600)
@task(queue="drift", time_limit=300)
def report_false_alarms() -> int:
    """Write the A/A report of the last complete week, once."""
    with transaction() as session:
        report = calibrate.report_week(session, clock_from_environment().now(), drift_settings())
    if report is not None:
        kept = all(rate.kept for rate in report.rates)
        log.info("drift_calibrated", week=report.week, cohort_days=report.cohort_days, rates_kept=kept)
    return int(report is not None)


@handler(TOPIC)
def decide_drift_alarm(_key: str, payload: dict[str, Any]) -> None:  # Any: JSON
    """Outbox: decide the alarm and start the retraining if the policy says so."""
    chosen = settings()
    with (
        ServiceClient(chosen.base_url, chosen.service_token) as curation,
        PrefectFlows(chosen.prefect_api_url) as flows,
    ):
        decision = retrain.decide_alarm(
            str(payload["alarm_id"]),
            clock_from_environment().now(),
            curation,
            flows,
            drift_settings(),
            chosen.retrain_deployment,
        )
    if decision is not None:
        log.info(
            "drift_alarm_decided",
            alarm_id=payload["alarm_id"],
            action=decision.action,
            reason=decision.reason,
        )


def _take(messages: Sequence[StreamMessage]) -> None:
    service.take_reports([message.fields["body"] for message in messages], clock_from_environment().now())
