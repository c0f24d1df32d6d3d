"""Drift: per cohort and day, is the fleet still looking at what the model was made for."""

from __future__ import annotations

from enum import StrEnum

from contracts.wire.base import Answer


class DriftState(StrEnum):
    """Verdict of one cohort on one day."""

    REFERENCE = "reference"
    INSUFFICIENT = "insufficient_data"
    STABLE = "stable"
    WARN = "warn"
    SEVERE = "severe"


class AlarmAction(StrEnum):
    """What an alarm led to."""

    PENDING = "pending"
    RETRAIN = "retrain"
    COVERED = "covered"
    COOL_DOWN = "cool_down"
    BUDGET = "budget"
    BENIGN = "benign"
    NO_EXAMPLES = "no_examples"


class MovedDirection(Answer):
    """A row of the observer's projection along which the mean moved: signed, in reference standard deviations of one
    frame, and in standard errors (`z`).
    """

    axis: int
    shift: float
    z: float


class CohortDay(Answer):
    """One cohort on one day. `z` is sigma-equivalent, `d` a bias-corrected effect size, `js` nats.

    `residual` is the size of a change outside the 28 directions (negative: energy fell); `directions` are those that
    moved most.
    """

    cohort: str
    day: int
    devices: int
    frames: int
    state: DriftState
    z: float | None = None
    d: float | None = None
    js: float | None = None
    residual: float | None = None
    directions: tuple[MovedDirection, ...] = ()
    score_mean: float | None = None


class Cohort(Answer):
    """Latest standing of a cohort."""

    cohort: str
    latest: CohortDay | None = None
    alarmed: bool = False


class CohortList(Answer):
    """All cohorts."""

    items: tuple[Cohort, ...]
    next_cursor: str | None = None


class DriftAlarm(Answer):
    """Cohorts that drifted, with the numbers, and what came of it."""

    id: str
    cohorts: tuple[str, ...]
    days: tuple[int, ...]
    z: float
    d: float
    js: float | None = None
    residual: float | None = None
    directions: tuple[MovedDirection, ...] = ()
    quality_fell: bool | None = None
    state: DriftState
    action: AlarmAction
    reason: str = ""
    flow_run_id: str | None = None
    created: float


class DriftAlarmList(Answer):
    """A page of alarms, newest first."""

    items: tuple[DriftAlarm, ...]
    next_cursor: str | None = None


class DriftStanding(Answer):
    """Drift at a glance: how many cohorts there are, how many drift severely or are alarmed by their latest day.

    `loudest` are those to look at first, `alarms` the newest.
    """

    cohorts: int = 0
    severe: int = 0
    alarmed: int = 0
    loudest: tuple[Cohort, ...] = ()
    alarms: tuple[DriftAlarm, ...] = ()
