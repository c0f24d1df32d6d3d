"""Readings of the platform as a whole, for Prometheus: one query each, with bounded labels.

The database is asked by short statements of its own transaction each, so that one that fails costs only itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from services.curation.tasks import GROUP as CURATION_GROUP
from services.curation.tasks import STREAM as SEGMENTS
from services.drift.tasks import GROUP as DRIFT_GROUP
from services.drift.tasks import STREAM as REPORTS
from services.kit.database import transaction
from services.kit.heartbeat import alive
from services.kit.streams import connection, lag, length
from services.kit.tasks import QUEUES, celery_app
from services.operations.expiry import expiries

STREAMS = ((SEGMENTS, CURATION_GROUP), (REPORTS, DRIFT_GROUP))
Row = tuple[tuple[str, ...], float]


@dataclass(frozen=True)
class Reading:
    """A metric of the platform: name, help, labels. `counter` where the value only ever grows."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    sql: str = ""
    counter: bool = False


FROM_DATABASE = (
    Reading(
        "edgeloop_outbox_waiting_messages",
        "Outbox messages that wait to be delivered.",
        ("topic",),
        "SELECT topic, count(*) FROM kit.outbox WHERE done_at IS NULL GROUP BY topic",
    ),
    Reading(
        "edgeloop_outbox_oldest_age_seconds",
        "Age of the oldest outbox message that waits.",
        ("topic",),
        "SELECT topic, extract(epoch FROM now() - min(created_at)) FROM kit.outbox WHERE done_at IS NULL "
        "GROUP BY topic",
    ),
    Reading(
        "edgeloop_rollouts",
        "Rollouts by state.",
        ("state",),
        "SELECT state, count(*) FROM releases.rollouts GROUP BY state",
    ),
    Reading(
        "edgeloop_release_alerts",
        "Alerts that the release service raised: roll backs, pauses without a verdict, kill switch.",
        ("kind",),
        "SELECT kind, count(*) FROM releases.alerts GROUP BY kind",
        counter=True,
    ),
    Reading(
        "edgeloop_devices",
        "Enrolled devices by class.",
        ("device_class",),
        "SELECT device_class, count(*) FROM releases.devices GROUP BY device_class",
    ),
    Reading(
        "edgeloop_builds", "Builds by state.", ("state",), "SELECT state, count(*) FROM builds.builds GROUP BY state"
    ),
    Reading(
        "edgeloop_drift_alarms",
        "Drift alarms by state.",
        ("state",),
        "SELECT state, count(*) FROM drift.alarms GROUP BY state",
    ),
    Reading(
        "edgeloop_tokens_expiring",
        "Valid operator and service tokens that expire within seven days.",
        ("kind",),
        "SELECT kind, count(*) FROM kit.tokens WHERE kind <> 'device' AND revoked_at IS NULL AND expires_at > now() "
        "AND expires_at < now() + interval '7 days' GROUP BY kind",
    ),
    Reading("edgeloop_database_bytes", "Size of the database.", (), "SELECT pg_database_size(current_database())"),
    Reading(
        "edgeloop_database_connections",
        "Connections of this database by state.",
        ("state",),
        "SELECT coalesce(state, 'none'), count(*) FROM pg_stat_activity WHERE datname = current_database() GROUP BY 1",
    ),
)
QUEUE_TASKS = Reading("edgeloop_queue_waiting_tasks", "Background tasks that wait in a queue.", ("queue",))
STREAM_LAG = Reading(
    "edgeloop_stream_lag_messages", "Stream entries that a group has not finished.", ("stream", "group")
)
STREAM_DEAD = Reading("edgeloop_stream_dead_messages", "Stream entries that were given up.", ("stream",))
PROCESSES = Reading("edgeloop_background_processes", "Background processes that show signs of life.", ("kind",))
TUF_EXPIRY = Reading("edgeloop_tuf_expiry_timestamp_seconds", "When update metadata expire (Unix time).", ("role",))
FROM_REDIS = (QUEUE_TASKS, STREAM_LAG, STREAM_DEAD, PROCESSES)
READINGS = (*FROM_DATABASE, *FROM_REDIS, TUF_EXPIRY)


def read(reading: Reading) -> Iterator[Row]:
    """The rows of a reading: label values and the value. Raises what its source raises."""
    if reading.sql:
        yield from _from_database(reading)
    elif reading is QUEUE_TASKS:
        yield from (((queue,), float(depth(queue))) for queue in QUEUES)
    elif reading is STREAM_LAG:
        yield from ((pair, float(lag(*pair))) for pair in STREAMS)
    elif reading is STREAM_DEAD:
        yield from (((stream,), float(length(f"{stream}.dead"))) for stream, _ in STREAMS)
    elif reading is PROCESSES:
        living = [process.kind for process in alive()]
        yield from (((kind,), float(living.count(kind))) for kind in ("beat", "worker"))
    else:
        yield from (((role,), moment) for role, moment in expiries())


def depth(queue: str) -> int:
    """Tasks that wait in a Celery queue."""
    prefix = celery_app.conf.broker_transport_options.get("global_keyprefix", "")
    waiting: Any = connection().llen(f"{prefix}{queue}")  # Any: redis-py types answers as sync or async
    return int(waiting)


def _from_database(reading: Reading) -> Iterator[Row]:
    with transaction() as session:
        rows = session.execute(text(reading.sql)).all()
    for row in rows:
        yield tuple(str(value) for value in row[:-1]), float(row[-1])
