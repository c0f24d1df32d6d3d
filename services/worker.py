"""The composition root of background work: `celery -A services.worker worker` (or `beat`).

Importing this module imports every service's tasks and outbox handlers, so the schedule and the topics are complete.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from celery.signals import beat_init, setup_logging, worker_process_shutdown, worker_ready

from services.kit import heartbeat, metrics, outbox_tasks, revocation_tasks
from services.kit.discovery import SERVICES, parts
from services.kit.logs import configure_logs
from services.kit.settings import settings
from services.kit.tasks import celery_app
from services.kit.tracing import start_spans

READY_FILE_VARIABLE = "EDGELOOP_READY_FILE"

app = celery_app
TASK_MODULES = [
    outbox_tasks.__name__,
    revocation_tasks.__name__,
    *(module.__name__ for _, module in parts("tasks", SERVICES)),
]


@setup_logging.connect(weak=False)
def use_our_logs(**_: Any) -> None:  # Any: signal arguments, unused
    """Set up JSON logs; a receiver of this signal keeps Celery's own set-up away."""
    configure_logs("worker", settings().log_level)
    start_spans("worker")


@worker_ready.connect(weak=False)
def worker_lives(**_: Any) -> None:  # Any: signal arguments, unused
    """Say that a worker is ready, show signs of life and answer for metrics."""
    _live("worker")


@beat_init.connect(weak=False)
def beat_lives(**_: Any) -> None:  # Any: signal arguments, unused
    """Say that beat is ready, show signs of life and answer for metrics."""
    _live("beat")


@worker_process_shutdown.connect(weak=False)
def child_ended(pid: int = 0, **_: Any) -> None:  # Any: signal arguments, unused
    """Drop the live metrics of a child of the prefork pool."""
    metrics.forget_process(pid)


def _live(kind: str) -> None:
    """Heartbeat and metrics; then the file that tells a supervisor that this process works."""
    heartbeat.start(kind)
    metrics.serve(kind)
    name = os.environ.get(READY_FILE_VARIABLE)
    if name:
        Path(name).touch()
