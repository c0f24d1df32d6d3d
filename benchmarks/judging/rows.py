"""Figures of simulated shares: the Monte-Carlo standard error stands beside each, the promise allows three of them."""

from __future__ import annotations

import math

from benchmarks.judging.tables import Simulated
from edgeloop.figures import Figure, Value

WIDTH = 3.0


def standard_error(share: float, runs: int) -> float:
    """Of a share of independent runs; never below that of half a run."""
    believed = min(max(share, 0.5 / runs), 1.0 - 0.5 / runs)
    return math.sqrt(believed * (1.0 - believed) / runs)


def matches(id: str, hits: int, runs: int, table: Simulated) -> Figure:
    """A share that should lie in the table's range, give or take three standard errors of both simulations."""
    share = hits / runs
    room = WIDTH * math.hypot(standard_error(share, runs), standard_error((table.low + table.high) / 2, table.runs))
    words = f"{table.low:g}" if table.low == table.high else f"{table.low:g} to {table.high:g}"
    reach = f"reference {words}, within {room:.3f} (3 SE of both)"
    return Figure(id, round(share, 4), _unit(share, runs), reach, table.low - room <= share <= table.high + room)


def ceiling(id: str, hits: int, runs: int, bound: float = 0.05) -> Figure:
    """A share of false alarms whose true value should not exceed `bound`."""
    share = hits / runs
    allowed = bound + WIDTH * standard_error(bound, runs)
    return Figure(id, round(share, 4), _unit(share, runs), f"<= {bound:g} (+ 3 SE: {allowed:.4f})", share <= allowed)


def floor(id: str, hits: int, runs: int, bound: float) -> Figure:
    """A power that should reach `bound`, without allowance."""
    share = hits / runs
    return Figure(id, round(share, 4), _unit(share, runs), f">= {bound:g}", share >= bound)


def printed(id: str, value: Value, unit: str, reach: str = "printed") -> Figure:
    """A figure without a promise."""
    return Figure(id, value, unit, reach, True)


def _unit(share: float, runs: int) -> str:
    return f"± {standard_error(share, runs):.4f} ({runs} runs)"
