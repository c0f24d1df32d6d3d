"""The trace under way: its id, the span that comes next is inside of, and whether it is recorded."""

from __future__ import annotations

import re
import secrets
from contextvars import ContextVar, Token
from dataclasses import dataclass

_TRACEPARENT = re.compile(r"^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$")
_NONE = "0" * 16


@dataclass(frozen=True)
class Trace:
    """`span_id` is empty at the root; `sampled` False where whoever began the trace records nothing of it."""

    trace_id: str
    span_id: str = ""
    sampled: bool = True


_trace: ContextVar[Trace | None] = ContextVar("edgeloop_trace", default=None)


def current() -> Trace:
    """The trace under way; a fresh one where there is none."""
    found = _trace.get()
    return found if found is not None else begin(None)


def begin(traceparent: str | None) -> Trace:
    """Begin a trace, continuing `traceparent` if it is well formed and names a trace."""
    match = _TRACEPARENT.match(traceparent or "")
    if match and int(match.group(1), 16):
        span_id = match.group(2) if match.group(2) != _NONE else ""
        made = Trace(match.group(1), span_id, bool(int(match.group(3), 16) & 1))
    else:
        made = Trace(secrets.token_hex(16))
    _trace.set(made)
    return made


def enter(trace: Trace) -> Token[Trace | None]:
    """Make `trace` the one under way; `leave` takes it back."""
    return _trace.set(trace)


def leave(token: Token[Trace | None]) -> None:
    """Go back to the trace before `enter`."""
    _trace.reset(token)


def current_trace_id() -> str:
    """Trace id of the running request or task; a fresh one where none is set."""
    return current().trace_id


def start_trace(traceparent: str | None = None) -> str:
    """Begin a trace, continuing `traceparent` if it is well formed; returns the 32-digit id."""
    return begin(traceparent).trace_id


def ongoing_traceparent() -> str:
    """Header value for what this trace causes later (a message, a task); empty where no trace is under way."""
    return traceparent() if _trace.get() is not None else ""


def traceparent() -> str:
    """Header value for an outgoing request of this trace: it names the span under way, or one that nobody records."""
    now = current()
    return f"00-{now.trace_id}-{now.span_id or secrets.token_hex(8)}-{'01' if now.sampled else '00'}"
