"""One form for every figure that is measured against a promise.

    {"machine": {...}, "figures": [{"id", "value", "unit", "reach", "ok"}, ...]}

Ids are stable; `reach` is the promise in words. Whoever prints figures leaves with 1 when any is not ok.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

Value = float | int | str | bool


@dataclass(frozen=True)
class Figure:
    """A measured value, the promise it is held against (`reach`, in words) and whether it holds."""

    id: str
    value: Value
    unit: str
    reach: str
    ok: bool


def at_least(id: str, value: float, unit: str, bound: float) -> Figure:
    """A figure that should be `bound` or more."""
    return Figure(id, value, unit, f">= {bound:g} {unit}".rstrip(), bool(value >= bound))


def at_most(id: str, value: float, unit: str, bound: float) -> Figure:
    """A figure that should be `bound` or less."""
    return Figure(id, value, unit, f"<= {bound:g} {unit}".rstrip(), bool(value <= bound))


def below(id: str, value: float, unit: str, bound: float) -> Figure:
    """A figure that should stay under `bound`."""
    return Figure(id, value, unit, f"< {bound:g} {unit}".rstrip(), bool(value < bound))


def exactly(id: str, value: Value, unit: str, wanted: Value) -> Figure:
    """A figure that should be equal to `wanted`."""
    return Figure(id, value, unit, _words(wanted), value == wanted)


def machine() -> dict[str, Any]:  # Any: JSON
    """What the figures were measured on."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "cpu": _processor(),
        "memory_gib": _memory_gib(),
    }


def frame(figures: Iterable[Figure]) -> dict[str, Any]:  # Any: JSON
    """The JSON document."""
    return {"machine": machine(), "figures": [asdict(figure) for figure in figures]}


def show(figures: Sequence[Figure], *, as_json: bool, console: Console | None = None, title: str = "") -> int:
    """Print the figures, as JSON or as a table; returns the exit code: 0 when all are ok, else 1."""
    if as_json:
        print(json.dumps(frame(figures), indent=2))
    else:
        (console or Console()).print(table(figures, title))
    return 0 if all(figure.ok for figure in figures) else 1


def table(figures: Sequence[Figure], title: str = "") -> Table:
    """The figures as a Rich table."""
    made = Table(title=title or None)
    for heading, align in (("figure", "left"), ("value", "right"), ("unit", "left"), ("promise", "left"), ("", "left")):
        made.add_column(heading, justify="right" if align == "right" else "left", overflow="fold")
    for figure in figures:
        mark = "[green]ok[/]" if figure.ok else "[bold red]NOT OK[/]"
        made.add_row(figure.id, _words(figure.value), figure.unit, figure.reach, mark)
    return made


def _words(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError):
        return None
