"""The composition root of background work: `celery -A services.worker worker` (or `beat`).

Importing this module imports every service's tasks and outbox handlers, so the schedule and the topics are complete.
"""

from __future__ import annotations

from typing import Any

from celery.signals import beat_init, setup_logging, worker_init

from services.kit import outbox_tasks as outbox_tasks
from services.kit.discovery import SERVICES, parts
from services.kit.logs import configure_logs
from services.kit.settings import settings
from services.kit.tasks import celery_app

app = celery_app
TASK_MODULES = [module.__name__ for _, module in parts("tasks", SERVICES)]


@setup_logging.connect(weak=False)
def _our_logs(**_: Any) -> None:  # Any: signal arguments, unused. Connecting keeps Celery's own log setup away.
    configure_logs("worker", settings().log_level)


@worker_init.connect(weak=False)
@beat_init.connect(weak=False)
def _say_tasks(**_: Any) -> None:  # Any: signal arguments, unused
    configure_logs("worker", settings().log_level)
