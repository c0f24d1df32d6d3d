"""`edgeloop bench verdicts`: the statistics of the automatic verdict against exact and simulated reference tables.

Seeds are fixed, so every figure is the same each time. A simulated share carries its Monte-Carlo standard error and
may be three of them away from its promise; a promised power may not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.judging import before_after, guards, planned, resampled, streaming, traps
from edgeloop.figures import Figure

RESAMPLED_AT = 0.4


def bench(tell: Callable[[float, str], None]) -> Sequence[Figure]:
    """All figures of the verdict's statistics."""

    def resampling(share: float, text: str) -> None:
        tell(RESAMPLED_AT + (1.0 - RESAMPLED_AT) * share, text)

    tell(0.0, "planned looks")
    found = planned.figures()
    tell(0.1, "streams")
    found += streaming.figures()
    tell(0.2, "traps")
    found += traps.figures()
    tell(0.3, "guards")
    found += guards.figures()
    tell(0.35, "before and after")
    found += before_after.figures()
    return [*found, *resampled.figures(resampling)]
