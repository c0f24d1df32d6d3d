"""Limits of the embedded platform: times to wait and how often a child is started again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SupervisorLimits:
    """A child that dies is started again after a pause that doubles from `first_pause_s` to `longest_pause_s`.

    More than `restarts` deaths within `window_s` are said aloud. During the first start, `start_tries` deaths of one
    child end the attempt. `ready_s` bounds the start of one child, `stop_s` its orderly end before it is killed.
    """

    ready_s: float = 240.0
    stop_s: float = 20.0
    poll_s: float = 0.1
    first_pause_s: float = 0.5
    longest_pause_s: float = 10.0
    restarts: int = 10
    start_tries: int = 3
    window_s: float = 120.0
    log_bytes: int = 50_000_000
    looks_between_log_checks: int = 300
    enrolments: int = 1_000_000
    enrolment_ttl_s: int = 30 * 86_400


LIMITS = SupervisorLimits()
