"""JSON logs on standard error: one object a line, with the trace id, and without secrets.

Invariant: a value whose key names a secret never reaches the log, however a caller passes it.
"""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from services.kit.tracing import current_trace_id

NOISY = ("celery.app.trace", "celery.worker.strategy", "celery.beat", "httpx", "alembic.runtime.migration")
"""Loggers that write a line for every tick or call; their warnings are kept."""

SECRET_KEYS = ("token", "secret", "password", "authorization", "cookie", "private")


def configure_logs(service: str, level: str = "INFO") -> None:
    """Send structlog and the standard library's logging to standard error as JSON lines."""

    def name_service(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        event["service"] = service
        return event

    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        name_service,
        add_trace_id,
        hide_secrets,
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    renderer = structlog.processors.JSONRenderer()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    for noisy in NOISY:
        logging.getLogger(noisy).setLevel(logging.WARNING)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


def add_trace_id(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Processor: the trace id of the running request."""
    event.setdefault("trace_id", current_trace_id())
    return event


def hide_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Processor: blank every value whose key names a secret."""
    for key in event:
        if any(word in key.lower() for word in SECRET_KEYS):
            event[key] = "***"
    return event
