"""Background work: one Celery application, tasks with a queue and a time limit, periodic tasks.

    @beat("drift.evaluate", seconds=5)
    @task(queue="drift", time_limit=60)
    def evaluate() -> None: ...

Rules: a task takes ids, opens its own `transaction()`, and is idempotent, because Redis may deliver it twice. A tick
that could not start before the next one is dropped. `services.worker` imports every service's tasks; it is what
`celery -A` is given. The time limit is enforced by the prefork pool; the threads pool of the embedded platform relies
on the statement timeout of the database.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from celery import Celery
from celery.app.task import Task
from celery.signals import before_task_publish

from services.kit.metrics import noted_task
from services.kit.settings import settings
from services.kit.tracing import ongoing_traceparent, span, start_trace

QUEUES = ("kit", "telemetry", "curation", "drift", "builds", "releases")
SCHEDULE: dict[str, dict[str, Any]] = {}  # Any: Celery's own schedule entries
ROUTES: dict[str, str] = {}
"""Task name -> queue."""

AnyTask: TypeAlias = "Task[Any, Any]"  # Any: a task takes and gives what its function does

celery_app = Celery("edgeloop")
_names: dict[int, tuple[str, AnyTask]] = {}  # by identity: asking a lazy task for its name would configure Celery


def _defaults() -> dict[str, Any]:  # Any: Celery's own configuration values
    return {
        "broker_url": settings().redis_url,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_transport_options": {"visibility_timeout": 900, "global_keyprefix": "celery."},
        "beat_schedule": dict(SCHEDULE),
        "task_routes": (_route,),
        "beat_max_loop_interval": 1,
        "task_ignore_result": True,
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        "task_serializer": "json",
        "accept_content": ["json"],
        "task_default_queue": "kit",
        "worker_prefetch_multiplier": 1,
        "worker_hijack_root_logger": False,
        "worker_send_task_events": False,
        "worker_enable_remote_control": False,
        "timezone": "UTC",
    }


def _route(name: str, *_: Any, **__: Any) -> dict[str, str] | None:  # Any: Celery's arguments, unused
    return {"queue": ROUTES[name]} if name in ROUTES else None


celery_app.add_defaults(_defaults)


class TracedTask(Task):  # type: ignore[type-arg]  # generic in its stubs only, not when it runs
    """A task that goes on with the trace of whoever sent it, or begins its own, and is counted."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        start_trace(getattr(self.request, "traceparent", None))
        with noted_task(self.name), span(f"task {self.name}", "consumer"):
            return super().__call__(*args, **kwargs)


@before_task_publish.connect(weak=False)
def carry_trace(headers: dict[str, Any] | None = None, **_: Any) -> None:  # Any: Celery's headers and arguments
    """Send the trace along with a task; beat has none under way, so each of its ticks begins one."""
    if headers is not None and (trace := ongoing_traceparent()):
        headers["traceparent"] = trace


def task(*, queue: str, time_limit: int = 60) -> Callable[[Callable[..., Any]], AnyTask]:
    """Register a function as a task of `queue`. `time_limit` in seconds; the soft limit comes 5 s earlier."""
    if queue not in QUEUES:
        raise ValueError(f"unknown queue {queue!r}; known: {', '.join(QUEUES)}")

    def register(function: Callable[..., Any]) -> AnyTask:
        name = f"{function.__module__.removeprefix('services.').removesuffix('.tasks')}.{function.__name__}"
        made: AnyTask = celery_app.task(
            base=TracedTask,
            name=name,
            time_limit=time_limit,
            soft_time_limit=max(1, time_limit - 5),
        )(function)
        ROUTES[name] = queue
        _names[id(made)] = (name, made)
        return made

    return register


def beat(name: str, seconds: float) -> Callable[[AnyTask], AnyTask]:
    """Run a task every `seconds` seconds; a tick not begun within that time is dropped."""

    def register(made: AnyTask) -> AnyTask:
        task_name, _ = _names[id(made)]
        options = {"queue": ROUTES[task_name], "expires": max(1.0, seconds)}
        SCHEDULE[name] = {"task": task_name, "schedule": seconds, "options": options}
        return made

    return register
