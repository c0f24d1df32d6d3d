"""Every stage of the bench by name, in the order that it needs them."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.teaching.eta import Tell
from benchmarks.teaching.hardening import hardened
from benchmarks.teaching.incremental import answered
from benchmarks.teaching.kept import Json
from benchmarks.teaching.level import level
from benchmarks.teaching.quicker import searched
from benchmarks.teaching.sharing import ranking, supernet

STAGES: dict[str, Callable[[int, Tell | None], Json]] = {
    "anchor": level,
    "supernet": supernet,
    "ranking": ranking,
    "search": searched,
    "hard": hardened,
    "incremental": answered,
}
