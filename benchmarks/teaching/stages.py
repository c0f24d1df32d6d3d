"""Every stage of the bench by name, in the order that it needs them."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.teaching.kept import Json
from benchmarks.teaching.level import level
from flows.tasks.training import Progress

STAGES: dict[str, Callable[[int, Progress | None], Json]] = {"anchor": level}
