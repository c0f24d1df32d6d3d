"""Spans over OTLP, where an endpoint is set (`OTEL_EXPORTER_OTLP_ENDPOINT`); elsewhere they cost a comparison.

Needs the extra `tracing` (OpenTelemetry's SDK and its exporter over HTTP), imported only then. The SDK reads its own
`OTEL_*` variables: headers, time-outs, sampler, attributes of the process. Ids of traces are ours, so that a line in
the log, a problem document, the audit trail and a span of one request name the same trace.

Invariants: a span never changes what the work does; a collector that is down or slow costs dropped spans, never a
request; attributes hold no content, no secret and no device's id.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from contracts.tracing.context import Trace, current, enter, leave

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
Attribute = str | int | float | bool

_log = logging.getLogger(__name__)


class Span(Protocol):
    """What the work inside may say of its span."""

    def rename(self, name: str) -> None:
        """A better name, known only now."""

    def note(self, **attributes: Attribute) -> None:
        """Attributes; two underscores stand for a dot."""


class _Idle:
    """The span where none is recorded; one object for all of them."""

    def rename(self, name: str) -> None:
        return None

    def note(self, **attributes: Attribute) -> None:
        return None

    def __enter__(self) -> Span:
        return self

    def __exit__(self, *_: object) -> None:
        return None


_IDLE = _Idle()
_recorder: _Recorder | None = None


def span(name: str, kind: str = "internal", **attributes: Attribute) -> AbstractContextManager[Span]:
    """A piece of work of the trace under way. `kind` is internal, server, client, producer or consumer."""
    return _IDLE if _recorder is None else _recorder.record(name, kind, attributes)


def start_spans(service: str) -> bool:
    """Record spans of this process as those of `service`; False, and nothing is imported, where no endpoint is set."""
    global _recorder  # one a process, like its log
    if not any(os.environ.get(name) for name in ENDPOINTS):
        return False
    try:
        made = _Recorder(service)
    except ImportError as error:
        _log.warning("no traces: %s is missing; install edgeloop[tracing]", error.name)
        return False
    stop_spans()
    _recorder = made
    return True


def stop_spans() -> None:
    """Send what waits and record no more."""
    global _recorder  # see start_spans
    if _recorder is not None:
        _recorder.close()
    _recorder = None


class _Recorder:
    """OpenTelemetry's tracer, told of our traces."""

    def __init__(self, service: str) -> None:
        from opentelemetry import trace
        from opentelemetry.context import Context
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

        class OurIds(RandomIdGenerator):
            def generate_trace_id(self) -> int:
                return int(current().trace_id, 16)

        self._api, self._context = trace, Context
        named = Resource.create({"service.name": f"edgeloop-{service}", "service.namespace": "edgeloop"})
        self._provider = TracerProvider(resource=named, id_generator=OurIds())
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("edgeloop")

    @contextmanager
    def record(self, name: str, kind: str, attributes: dict[str, Attribute]) -> Iterator[Span]:
        """A span around the work inside; an exception ends it as failed, by the name of its class only."""
        parent = current()
        made = self._tracer.start_span(
            name, context=self._inside(parent), kind=self._api.SpanKind[kind.upper()], attributes=_dotted(attributes)
        )
        told = made.get_span_context()
        token = enter(Trace(parent.trace_id, f"{told.span_id:016x}", bool(told.trace_flags.sampled)))
        try:
            yield _Recorded(made)
        except BaseException as error:
            made.set_status(self._api.StatusCode.ERROR, type(error).__name__)
            raise
        finally:
            leave(token)
            made.end()

    def close(self) -> None:
        """Send what waits."""
        self._provider.shutdown()

    def _inside(self, parent: Trace) -> Any:  # Any: OpenTelemetry's context
        if not parent.span_id:
            return self._context()
        flags = self._api.TraceFlags(1 if parent.sampled else 0)
        known = self._api.SpanContext(int(parent.trace_id, 16), int(parent.span_id, 16), True, flags)
        return self._api.set_span_in_context(self._api.NonRecordingSpan(known), self._context())


class _Recorded:
    """A span of OpenTelemetry behind ours."""

    def __init__(self, made: Any) -> None:  # Any: OpenTelemetry's span
        self._made = made

    def rename(self, name: str) -> None:
        self._made.update_name(name)

    def note(self, **attributes: Attribute) -> None:
        self._made.set_attributes(_dotted(attributes))


def _dotted(attributes: dict[str, Attribute]) -> dict[str, Attribute]:
    return {name.replace("__", "."): value for name, value in attributes.items()}
