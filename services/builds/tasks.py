"""Background work of builds, on the queue `builds`: compile, judge, and a sweep that re-sends what got stuck."""

from __future__ import annotations

from typing import Any

from contracts.wire import BuildState
from services.builds import leases, work
from services.builds.limits import WORK
from services.builds.service import TOPIC
from services.builds.states import COMPILABLE
from services.kit.database import transaction, try_lock
from services.kit.outbox import handler
from services.kit.tasks import beat, task


@task(queue="builds", time_limit=WORK.compile_s + 60)
def compile_build(build_id: str) -> None:
    """Compile one build."""
    work.compile_step(build_id)


@task(queue="builds", time_limit=WORK.gate_s)
def gate_build(build_id: str) -> None:
    """Judge one build on the devices."""
    work.gate_step(build_id)


@handler(TOPIC)
def send(_key: str, payload: dict[str, Any]) -> None:  # Any: JSON
    """Start the step that a build waits for."""
    step_of(BuildState(payload["state"])).delay(payload["build"])


def step_of(state: BuildState) -> Any:  # Any: celery tasks are untyped
    """The task that carries on from this state."""
    return compile_build if state in COMPILABLE else gate_build


@beat("builds.sweep", seconds=WORK.sweep_s)
@task(queue="builds", time_limit=30)
def sweep() -> int:
    """Send again every build that waits without anyone working on it; returns how many."""
    with transaction() as session:
        if not try_lock(session, "builds.sweep"):
            return 0
        rows = leases.stuck(session)
        for row in rows:
            step_of(BuildState(row.state)).delay(row.id)
        return len(rows)
