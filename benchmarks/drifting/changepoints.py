"""Series in which people marked changes, watched with the service's own test: how late, how often for nothing?

An observation is one vote and ten make a day; two days are the reference, in whose whitened units the next days are
judged; two drifting days of three are an alarm, and the alarm's day begins the next reference. The divergence is not
used (it needs 200 votes). Nothing was fitted to these series; most of them are not independent from row to row, which
is what the service's votes are and these are not, so expect more false alarms than between devices.

Alarms and marks are matched one to one: an alarm finds a mark up to 40 rows back. Recall is the mean over annotators,
a false alarm is one that finds no mark of anybody (van den Burg and Williams 2020). Beside it stands a detector that
fires every day whatever it sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.judging.rows import printed
from benchmarks.peers.environment import PeerFailed
from benchmarks.peers.river.series import Series, read_series
from contracts.wire.drift import DriftState
from edgeloop.figures import Figure, below
from services.drift.domain.alarm import alarmed_cohorts
from services.drift.domain.reference import Reference, pooled_spread
from services.drift.domain.verdict import judge, measure
from services.drift.domain.votes import Votes
from services.drift.limits import DriftSettings

Array = NDArray[np.float64]

DAY, REFERENCE_DAYS, MARGIN = 10, 2, 40
SETTINGS = DriftSettings().model_copy(update={"min_devices": DAY, "min_freedom": 18})
SMALLEST_SPREAD = 1e-9


@dataclass(frozen=True)
class Score:
    """How one detector did on one series: per annotator recall and delays in rows, and false alarms."""

    recall: float
    precision: float
    delays: tuple[int, ...]
    false_alarms: int
    alarms: int
    rows: int

    @property
    def f1(self) -> float:
        """Harmonic mean of recall and precision."""
        both = self.recall + self.precision
        return 2 * self.recall * self.precision / both if both else 0.0


def figures() -> list[Figure]:
    """Scores of all series and their means; one figure that is not ok when the series cannot be had."""
    try:
        everything = read_series()
    except PeerFailed as error:
        return [Figure("changepoints.series", str(error), "", "river's wheel, installed once", False)]
    ours = {series.name: score(series, alarms(series.values)) for series in everything}
    fires = {series.name: score(series, always(len(series.values))) for series in everything}
    found = [figure for name in ours for figure in _rows(name, ours[name], fires[name])]
    return [*found, *_together(list(ours.values()), list(fires.values()))]


def alarms(values: Array) -> tuple[int, ...]:
    """Rows (one past the last seen) at which the service's rules raise an alarm."""
    days = [values[start : start + DAY] for start in range(0, len(values) - DAY + 1, DAY)]
    raised, first = [], 0
    states: dict[int, DriftState] = {}
    for day in range(len(days)):
        if day < first + REFERENCE_DAYS:
            continue
        states[day] = _state(days[first : first + REFERENCE_DAYS], days[day])
        if alarmed_cohorts({"series": states}, day, SETTINGS.window_days, SETTINGS.days_in_window):
            raised.append((day + 1) * DAY)
            first, states = day, {}
    return tuple(raised)


def always(rows: int) -> tuple[int, ...]:
    """Alarms of the detector that fires every day."""
    return tuple(range(DAY, rows + 1, DAY))


def score(series: Series, raised: Sequence[int]) -> Score:
    """Hold alarms against the marks of every annotator and of all together."""
    per_person = [matched(marks, raised) for marks in series.marks]
    union = sorted({mark for marks in series.marks for mark in marks})
    hits = len(matched(union, raised))
    recalls = [len(found) / len(marks) for found, marks in zip(per_person, series.marks, strict=True)]
    return Score(
        recall=float(np.mean(recalls)),
        precision=hits / len(raised) if raised else 0.0,
        delays=tuple(delay for found in per_person for delay in found),
        false_alarms=len(raised) - hits,
        alarms=len(raised),
        rows=len(series.values),
    )


def matched(marks: Sequence[int], raised: Sequence[int]) -> list[int]:
    """Delays of the marks that were found; each alarm finds one mark, the oldest that is still open."""
    left, delays = sorted(marks), []
    for alarm in sorted(raised):
        open_marks = [mark for mark in left if mark <= alarm <= mark + MARGIN]
        if open_marks:
            left.remove(open_marks[0])
            delays.append(alarm - open_marks[0])
    return delays


def _state(reference: Sequence[Array], day: Array) -> DriftState:
    whiten = _Whitening(np.concatenate(reference))
    days = [_votes(whiten(rows)) for rows in reference]
    base = Reference.of_days(days)
    verdict = measure(_votes(whiten(day)), base, pooled_spread([base]), SETTINGS)
    return judge({"series": verdict}, SETTINGS)["series"].state


class _Whitening:
    """The observer's part: mean, spread and principal axes of the reference."""

    def __init__(self, rows: Array) -> None:
        self._mean, spread = rows.mean(axis=0), rows.std(axis=0)
        self._spread = np.where(spread > SMALLEST_SPREAD, spread, 1.0)
        values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(self._unit(rows).T)))
        self._axes = vectors / np.sqrt(np.maximum(values, 1e-3))

    def __call__(self, rows: Array) -> Array:
        return np.asarray(self._unit(rows) @ self._axes)

    def _unit(self, rows: Array) -> Array:
        return np.asarray((rows - self._mean) / self._spread)


def _votes(rows: Array) -> Votes:
    nothing = np.empty(0)
    return Votes.of_devices(rows, np.empty((len(rows), 0, 0)), nothing, nothing)


def _rows(name: str, ours: Score, fires: Score) -> list[Figure]:
    beside = f"always firing {fires.recall:.2f}"
    precise = f"always firing {fires.precision:.2f}"
    false = f"of {ours.alarms} alarms; always firing {fires.false_alarms} of {fires.alarms}"
    return [
        printed(f"changepoints.{name}.recall", round(ours.recall, 3), beside),
        printed(f"changepoints.{name}.precision", round(ours.precision, 3), precise),
        printed(f"changepoints.{name}.delay", _mean(ours.delays), f"rows; always firing {_mean(fires.delays)}"),
        printed(f"changepoints.{name}.false_alarms", ours.false_alarms, false),
    ]


def _together(ours: list[Score], fires: list[Score]) -> list[Figure]:
    rows = sum(one.rows for one in ours)
    false = [1000 * sum(one.false_alarms for one in scores) / rows for scores in (ours, fires)]
    f1 = [float(np.mean([one.f1 for one in scores])) for scores in (ours, fires)]
    delay = [_mean([delay for one in scores for delay in one.delays]) for scores in (ours, fires)]
    recall = [float(np.mean([one.recall for one in scores])) for scores in (ours, fires)]
    return [
        below("changepoints.false_alarms_per_1000_rows", round(false[0], 2), "(always firing)", round(false[1], 2)),
        printed("changepoints.recall", round(recall[0], 3), f"mean of series; always firing {recall[1]:.3f}"),
        printed("changepoints.delay", delay[0], f"rows; always firing {delay[1]}"),
        Figure("changepoints.f1", round(f1[0], 3), "mean of series", f"> {f1[1]:.3f} (always firing)", f1[0] > f1[1]),
    ]


def _mean(delays: Sequence[int]) -> float | str:
    return round(float(np.mean(delays)), 1) if delays else "none found"
