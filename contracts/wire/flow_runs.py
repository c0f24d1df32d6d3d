"""Runs of the flow engine, as the drift service tells them and the console shows them."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from contracts.wire.base import Answer, Message


class FlowRunInfo(Answer):
    """A run of the flow engine. `state` is its kind (completed, failed, running...), `state_name` the engine's word.

    Times are real seconds since 1970; `run_s` is how long it worked, `runs` how often it began. `retryable`: it failed
    and a worker would pick it up again.
    """

    id: str
    name: str
    state: str
    state_name: str = ""
    message: str = ""
    expected: float | None = None
    started: float | None = None
    ended: float | None = None
    run_s: float = 0.0
    runs: int = 0
    alarm: str = ""
    tags: tuple[str, ...] = ()
    retryable: bool = False


class FlowLine(Answer):
    """A line that the run wrote; those of the retraining flow name step and progress."""

    at: float
    level: str
    text: str


class FlowRunDetail(FlowRunInfo):
    """A run with its newest lines, in order of time."""

    lines: tuple[FlowLine, ...] = ()


class FlowRetry(Message):
    """Ask for a failed run again, and say why."""

    reason: Annotated[str, StringConstraints(min_length=3, max_length=400)]


class FlowRunList(Answer):
    """A page of runs, newest first."""

    items: tuple[FlowRunInfo, ...]
    next_cursor: str | None = None
