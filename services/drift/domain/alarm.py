"""When do drifting days make an alarm: 2 of 3 days by default.

Two days that agree turn a false alarm rate of 2e-4 a day into one in some hundred years of cohorts; one day
may be missing because devices sleep.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from contracts.wire.drift import DriftState
from services.drift.domain.verdict import drifting


def alarmed_cohorts(
    states: Mapping[str, Mapping[int, DriftState]], day: int, window_days: int, days_in_window: int
) -> tuple[str, ...]:
    """Return, sorted, the cohorts that drift on `day` and on enough days of the window that ends there.

    `states[cohort][day]` holds past verdicts. A cohort that is calm on `day` itself raises no new alarm.
    """
    window = range(day - window_days + 1, day + 1)
    alarmed = []
    for cohort, days in states.items():
        hits = sum(1 for one in window if one in days and drifting(days[one]))
        if day in days and drifting(days[day]) and hits >= days_in_window:
            alarmed.append(cohort)
    return tuple(sorted(alarmed))


def alarm_id(embedding_id: str, cohorts: Sequence[str], first_day: int, last_day: int) -> str:
    """Return the natural key of an alarm: same embedding, cohorts and days, same alarm, however often
    found.
    """
    text = "\n".join((embedding_id, str(first_day), str(last_day), *sorted(cohorts)))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
