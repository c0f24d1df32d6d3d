"""The outbox's own task: every second, send what waits."""

from __future__ import annotations

from services.kit.outbox import dispatch
from services.kit.tasks import beat, task


@beat("kit.dispatch_outbox", seconds=1)
@task(queue="kit", time_limit=60)
def dispatch_outbox() -> int:
    """Deliver waiting outbox messages of every topic."""
    return dispatch()
