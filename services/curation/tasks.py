"""Background work of curation: take segments, cluster, forget. Every task may be repeated at any point."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from contracts.clock import clock_from_environment
from services.curation import ingest, service
from services.curation.limits import LIMITS, curation_settings
from services.kit.database import transaction
from services.kit.streams import StreamMessage, consume_waiting
from services.kit.tasks import beat, task

STREAM = "telemetry.segments"
GROUP = "curation"

log = structlog.get_logger(__name__)


@beat("curation.ingest", seconds=2)
@task(queue="curation", time_limit=60)
def ingest_segments() -> int:
    """Take waiting segments from the stream, many in a transaction."""
    return consume_waiting(STREAM, GROUP, _take, LIMITS.batch, LIMITS.ingest_for_s)


@beat("curation.cluster", seconds=3)
@task(queue="curation", time_limit=300)
def cluster_segments() -> str | None:
    """Do the run that somebody asked for, or the periodic one when it is due."""
    run_id = service.run_next(clock_from_environment().now(), curation_settings())
    if run_id is not None:
        log.info("curation_run_done", run_id=run_id)
    return run_id


@beat("curation.sweep", seconds=600)
@task(queue="curation", time_limit=60)
def sweep_old_segments() -> None:
    """Forget segments beyond the retention."""
    with transaction() as session:
        ingest.sweep(session, clock_from_environment().now(), curation_settings())


def _take(messages: Sequence[StreamMessage]) -> None:
    service.take_segments([message.fields["body"] for message in messages], clock_from_environment().now())
