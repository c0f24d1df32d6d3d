"""Limits of the embedded platform: times to wait and how often a child is started again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SupervisorLimits:
    """A child that dies is started again after a pause that doubles from `first_pause_s` to `longest_pause_s`.

    After `restarts` deaths within `window_s` it is given up and the platform says so. `ready_s` bounds the start of
    one child, `stop_s` its orderly end before it is killed.
    """

    ready_s: float = 120.0
    stop_s: float = 15.0
    poll_s: float = 0.1
    first_pause_s: float = 0.5
    longest_pause_s: float = 10.0
    restarts: int = 10
    window_s: float = 120.0
    log_bytes: int = 50_000_000


LIMITS = SupervisorLimits()
