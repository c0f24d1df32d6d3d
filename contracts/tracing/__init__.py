"""Traces that go through the whole platform: one id for everything that one cause brings about (W3C `traceparent`).

context     the trace under way in this thread or task, read from and written as a `traceparent`
spans       how long each piece took and inside what; recorded and exported only where an endpoint is set
"""

from contracts.tracing.context import current_trace_id, ongoing_traceparent, start_trace, traceparent
from contracts.tracing.spans import Span, span, start_spans, stop_spans

__all__ = [
    "Span",
    "current_trace_id",
    "ongoing_traceparent",
    "span",
    "start_spans",
    "start_trace",
    "stop_spans",
    "traceparent",
]
