"""Prometheus metrics of a process: what exists, and the port of its own on which they are read.

Metrics are never a route of the public application: they have a port of their own (`EDGELOOP_METRICS_PORT`, 0 is
off), bound to loopback unless `EDGELOOP_METRICS_HOST` says otherwise. Names and labels are documented in
`docs/reference/metrics.md`; a label never holds a device id, a token or free text, so the number of series is bounded.

A process that forks (Celery's prefork pool) needs `PROMETHEUS_MULTIPROC_DIR`, an empty folder of its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

import structlog
from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, Info, start_http_server
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from services.kit.settings import settings

MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
OTHER = "other"
HTTP_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
TASK_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1200.0)

REQUESTS = Counter("edgeloop_http_requests", "Answered requests.", ("service", "method", "route", "status"))
REQUEST_SECONDS = Histogram(
    "edgeloop_http_request_duration_seconds",
    "Time from the request to the end of its answer.",
    ("service", "method", "route"),
    buckets=HTTP_BUCKETS,
)
TASK_RUNS = Counter("edgeloop_task_runs", "Runs of background tasks that ended.", ("task", "outcome"))
TASK_SECONDS = Histogram(
    "edgeloop_task_duration_seconds", "Time that a background task ran.", ("task",), buckets=TASK_BUCKETS
)
TASK_SUCCESS = Gauge(
    "edgeloop_task_last_success_timestamp_seconds",
    "When a background task last ended well (Unix time).",
    ("task",),
    multiprocess_mode="mostrecent",
)

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

log = structlog.get_logger(__name__)


def note_request(path: str, route: str | None, method: str, status: int, seconds: float) -> None:
    """Count an answer. `route` is the route's template, None for a path that leads nowhere."""
    service = path.split("/", 2)[1] if route is not None and path.count("/") > 1 else ""
    labels = (service, method if method in METHODS else OTHER, route if route is not None else OTHER)
    REQUESTS.labels(*labels, str(status)).inc()
    REQUEST_SECONDS.labels(*labels).observe(seconds)


@contextmanager
def noted_task(name: str) -> Iterator[None]:
    """Count the run of a task, whatever its end."""
    begun = time.perf_counter()
    try:
        yield
    except BaseException:
        TASK_RUNS.labels(name, "failed").inc()
        raise
    else:
        TASK_RUNS.labels(name, "succeeded").inc()
        TASK_SUCCESS.labels(name).set_to_current_time()
    finally:
        TASK_SECONDS.labels(name).observe(time.perf_counter() - begun)


def serve(process: str, registry: CollectorRegistry | None = None) -> int:
    """Answer `GET /metrics` on the process's metrics port; returns the port, 0 when there is none.

    A port that is taken is said in the log and costs the metrics only, never the service.
    """
    port, host = settings().metrics_port, settings().metrics_host
    if port == 0:
        return 0
    try:
        start_http_server(port, addr=host, registry=registry or own_registry(process))
    except OSError as error:
        log.error("metrics_port_unusable", port=port, host=host, error=str(error))
        return 0
    return port


def own_registry(process: str) -> CollectorRegistry:
    """The registry of this process, or the sum over its children where it forks."""
    if not os.environ.get(MULTIPROCESS):
        _build_info(REGISTRY, process)
        return REGISTRY
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    _build_info(registry, process)
    return registry


def forget_process(pid: int) -> None:
    """Drop the live gauges of a child that ended."""
    if os.environ.get(MULTIPROCESS):
        mark_process_dead(pid)  # type: ignore[no-untyped-call]


def _build_info(registry: CollectorRegistry, process: str) -> None:
    if "edgeloop_build_info" in getattr(registry, "_names_to_collectors", {}):
        return
    made = Info("edgeloop_build", "What runs here.", registry=None)
    made.info({"version": _version(), "process": process})
    registry.register(made)


def _version() -> str:
    try:
        return version("edgeloop")
    except PackageNotFoundError:
        return "checkout"
