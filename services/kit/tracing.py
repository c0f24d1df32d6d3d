"""Trace ids: one id a request, taken from `traceparent` (W3C) or made here, in logs and in every problem document.

The trace itself is a contract (`contracts.tracing`): flows go on with it too.
"""

from __future__ import annotations

from contracts.tracing import (
    current_trace_id,
    ongoing_traceparent,
    span,
    start_spans,
    start_trace,
    traceparent,
)

__all__ = ["current_trace_id", "ongoing_traceparent", "span", "start_spans", "start_trace", "traceparent"]
