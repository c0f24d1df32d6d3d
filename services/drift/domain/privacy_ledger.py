"""What published days have cost the devices behind them, and whether one more is affordable.

Losses are zCDP (`privacy_loss`), so they add up. Three facts keep the sum small without giving anything up:

- A device reports once a day, for one cohort. So releases of several cohorts of one day cost a device the largest of
  them, not their sum.
- The promise is about any window of so many days in a row: a device that reported on all of them.
- A day of a cohort is drawn once. Showing it again costs nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum


@dataclass(frozen=True)
class Window:
    """`first` day of a window and the zCDP loss of all releases of its days."""

    first: int
    rho: float


def with_release(spent: Mapping[int, float], day: int, rho: float) -> dict[int, float]:
    """Loss of each day, one more release of `day` among them."""
    return {**spent, day: max(spent.get(day, 0.0), rho)}


def worst_window(spent: Mapping[int, float], length: int, day: int | None = None) -> Window:
    """The window of `length` days in a row that cost most: of those that hold `day`, or of all. Equal ones: the first.

    `spent` is the loss of each day. Raises ValueError for a length under one.
    """
    if length < 1:
        raise ValueError(f"a window has at least one day, got {length}")
    days = sorted(spent)
    firsts = days if day is None else range(day - length + 1, day + 1)
    windows = [Window(first, _loss(spent, days, first, first + length)) for first in firsts]
    return max(windows, key=lambda window: window.rho, default=Window(0, 0.0))


def _loss(spent: Mapping[int, float], days: Sequence[int], first: int, end: int) -> float:
    """Sum over the days from `first` to before `end`; exact, so that a budget can be spent to the last bit."""
    return fsum(spent[one] for one in days[bisect_left(days, first) : bisect_left(days, end)])
