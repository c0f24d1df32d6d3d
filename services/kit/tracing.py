"""Trace ids: one id a request, taken from `traceparent` (W3C) or made here, in logs and in every problem document."""

from __future__ import annotations

import re
import secrets
from contextvars import ContextVar

_TRACEPARENT = re.compile(r"^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$")
_trace_id: ContextVar[str] = ContextVar("edgeloop_trace_id", default="")


def current_trace_id() -> str:
    """Trace id of the running request or task; a fresh one where none is set."""
    return _trace_id.get() or start_trace()


def start_trace(traceparent: str | None = None) -> str:
    """Begin a trace, continuing `traceparent` if it is well formed; returns the 32-digit id."""
    match = _TRACEPARENT.match(traceparent or "")
    trace_id = match.group(1) if match else secrets.token_hex(16)
    _trace_id.set(trace_id)
    return trace_id


def ongoing_traceparent() -> str:
    """Header value for what this trace causes later (a message, a task); empty where no trace is under way."""
    return traceparent() if _trace_id.get() else ""


def traceparent() -> str:
    """Header value for an outgoing request of this trace."""
    return f"00-{current_trace_id()}-{secrets.token_hex(8)}-01"
