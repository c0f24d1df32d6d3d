"""CPU time of the platform's processes: a measure of a view that a busy machine distorts less than the clock."""

from __future__ import annotations

import os

import psutil


def spent_s() -> float:
    """Seconds of CPU that the children of this process and theirs have used: servers, PostgreSQL's backends, Redis."""
    total = 0.0
    for process in psutil.Process(os.getpid()).children(recursive=True):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total
