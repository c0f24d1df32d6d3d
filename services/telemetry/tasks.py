"""Telemetry's background work: publish what was accepted, cut the streams, make and drop days.

Every task may be repeated at any point, and by two workers at once.
"""

from __future__ import annotations

import structlog

from contracts.clock import clock_from_environment, day_of
from services.kit.database import transaction, try_lock
from services.kit.tasks import beat, task
from services.telemetry import partitions, refusals, relay
from services.telemetry.limits import LIMITS

KINDS = {relay.REPORTS: partitions.REPORTS, relay.SEGMENTS: partitions.SEGMENTS}

log = structlog.get_logger(__name__)


@beat("telemetry.publish_reports", seconds=1)
@task(queue="telemetry", time_limit=60)
def publish_reports() -> int:
    """Append accepted reports to their stream; after Redis lost data, those that it lost."""
    return relay.publish(relay.REPORTS)


@beat("telemetry.publish_segments", seconds=1)
@task(queue="telemetry", time_limit=60)
def publish_segments() -> int:
    """Append accepted segments to their stream, likewise."""
    return relay.publish(relay.SEGMENTS)


@beat("telemetry.tidy", seconds=10)
@task(queue="telemetry", time_limit=60)
def tidy() -> None:
    """Move the durable marks, cut the streams behind them, and say aloud when a reader is far behind."""
    for each in relay.RELAYS:
        relay.cut(each)
        with transaction() as session:
            lag = relay.lag(session, each)
        if lag.oldest_s > LIMITS.lag_alarm_s:
            log.error("stream_behind", stream=lag.stream, waiting=lag.waiting, oldest_s=lag.oldest_s)


@beat("telemetry.days", seconds=15)
@task(queue="telemetry", time_limit=120)
def turn_days() -> list[int]:
    """Make the days ahead and drop those that were kept long enough; returns the dropped ones."""
    today = day_of(clock_from_environment().now())
    with transaction() as session:
        if not try_lock(session, "telemetry.days"):
            return []
        refusals.forget(session, today)
        dropped: list[int] = []
        for each, kind in KINDS.items():
            partitions.ensure(kind, range(today, today + LIMITS.days_made_ahead + 1))
            dropped += partitions.drop_before(kind, today - LIMITS.kept_days, relay.finished(each))
        return dropped
