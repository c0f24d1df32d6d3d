"""CPU time of two functions on the same frame, run in turn so that a slow moment of the machine hits both."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Pair:
    """Median CPU seconds (all threads of the process) of each."""

    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """Ours over theirs."""
        return self.ours / self.theirs


def alternated(ours: Callable[[], object], theirs: Callable[[], object], rounds: int = 7) -> Pair:
    """Medians over `rounds` turns, after one turn that is not counted."""
    spent: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds + 1):
        for function, times in zip((ours, theirs), spent, strict=True):
            start = time.process_time()
            function()
            if turn:
                times.append(time.process_time() - start)
    return Pair(statistics.median(spent[0]), statistics.median(spent[1]))
