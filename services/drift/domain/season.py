"""When a weekday deserves a reference of its own: it differs from the others, and every week the fleet comes back.

A drift that stays never comes back, so it can never pass for a season.
"""

from __future__ import annotations

from collections.abc import Mapping

from contracts.wire.drift import DriftState
from services.drift.domain.verdict import drifting

WEEK = 7


def weekday_of(day: int) -> int:
    """A number from 0 to 6 that days a week apart share."""
    return day % WEEK


def season_before(states: Mapping[int, DriftState], day: int, weeks: int) -> tuple[int, ...]:
    """The last `weeks` days of the same weekday before `day`, oldest first, if they are a season; else nothing.

    They are one when all of them were judged to drift and a day between each and the next, and between the last and
    `day`, was judged stable.
    """
    days = tuple(day - WEEK * back for back in range(weeks, 0, -1))
    differ = all(one in states and drifting(states[one]) for one in days)
    back = all(any(states.get(d) is DriftState.STABLE for d in range(one + 1, one + WEEK)) for one in days)
    return days if differ and back else ()
