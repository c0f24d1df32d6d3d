"""Messages of the drift API beyond `contracts.wire.drift`: more fields for people, same meaning."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from contracts.wire.base import Answer, Identifier, Message
from contracts.wire.drift import CohortDay

Positive = Annotated[float | None, Field(gt=0, le=1_000)]
Nats = Annotated[float | None, Field(gt=0, le=0.6931)]
Devices = Annotated[int | None, Field(ge=2, le=1_000_000_000)]


class CohortDayDetail(CohortDay):
    """A cohort-day with the reason of its verdict. `p` is the tail probability behind `z`.

    `quality_rise_db` is the rise of expected loss against the reference; `thresholds` the row of `/v1/thresholds` that
    the verdict used, or null for the settings.
    """

    embedding_id: str
    reason: str = ""
    p: float | None = None
    z_residual: float | None = None
    quality_rise_db: float | None = None
    quality_fell: bool | None = None
    thresholds: int | None = None


class CohortDays(Answer):
    """Days of some cohorts, in order of day, then cohort."""

    items: tuple[CohortDayDetail, ...]


class EvaluationAnswer(Answer):
    """What one pass judged."""

    days: tuple[int, ...]
    alarms: tuple[str, ...]


class ObserverAnswer(Answer):
    """An observer is registered; `duplicate` when it had been before."""

    embedding_id: str
    duplicate: bool


class RejectedReason(Answer):
    """Reports counted apart for one reason, with the latest detail."""

    reason: str
    reports: int
    latest: str


class ThresholdValues(Message):
    """What may differ for a cohort; what is left out stays as in the settings (units there)."""

    min_devices: Devices = None
    min_devices_js: Devices = None
    z_threshold: Positive = None
    d_warn: Positive = None
    d_severe: Positive = None
    js_warn: Nats = None
    js_severe: Nats = None
    residual_warn: Positive = None
    residual_severe: Positive = None
    quality_alpha: Annotated[float | None, Field(gt=0, le=0.5)] = None
    quality_fall_db: Annotated[float | None, Field(ge=0, le=100)] = None


class ThresholdChange(Message):
    """Set thresholds of one cohort (`npu-4t/mobile`) or of all of a device class (`npu-4t/*`), and say why."""

    cohorts: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,24}/([A-Za-z0-9._-]{1,32}|\*)$")]
    values: ThresholdValues
    reason: Annotated[str, StringConstraints(min_length=3, max_length=400)]


class ThresholdRecord(Answer):
    """One change of thresholds."""

    id: int
    cohorts: str
    values: dict[str, float]
    reason: str
    author: str
    created: float


class SettingRecord(Answer):
    """A setting of the process: its value now, the value it ships with, what it means and in which unit."""

    name: str
    value: float
    default: float
    meaning: str
    by_cohort: bool


class SettingList(Answer):
    """Every setting that a verdict of drift depends on."""

    items: tuple[SettingRecord, ...]


class FalseAlarmRate(Answer):
    """Share of tests of a day against itself below `nominal`; `kept` when it is within half and twice of it."""

    nominal: float
    rate: float
    standard_error: float
    resolvable: bool
    kept: bool


class ObservedWeek(Answer):
    """Cohort-days judged in the week, those that were significant, and those called drift."""

    judged: int
    significant: int
    drifting: int


class PowerAt(Answer):
    """Chance that one day of `devices` is significant when its mean moved by `d`, even over the 28 directions."""

    d: float
    devices: int
    power: float


class CalibrationReport(Answer):
    """The A/A report of a week: false alarms of the test on days split by chance, and its power on this fleet."""

    embedding_id: str
    week: int
    first_day: int
    cohort_days: int
    too_small: int
    tests: int
    rates: tuple[FalseAlarmRate, ...]
    observed: ObservedWeek
    power: tuple[PowerAt, ...]


class RebaseAnswer(Answer):
    """A release after which cohorts get new references."""

    release: str
    device_classes: tuple[str, ...]
    finished: float


class PublishDay(Message):
    """Publish one cohort's day, or get what was published of it before."""

    cohort: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,24}/[A-Za-z0-9._-]{1,32}$")]
    day: Annotated[int, Field(ge=0, le=1_000_000)]
    epsilon: Annotated[float, Field(gt=0, le=20)]
    delta: Annotated[float, Field(gt=0, le=1e-4)]
    reason: Annotated[str, StringConstraints(min_length=3, max_length=400)]
    embedding_id: Identifier | None = Field(None, description="by default the newest embedding")


class PublishedAnswer(Answer):
    """A cohort's day as it may be shown to others, under the epsilon and delta that stand beside it.

    `votes` are devices per bin of eight histograms (8 x 16); `deviation` is that of the noise, in devices. Both numbers
    are null when the cohort is `suppressed` for being small. `duplicate` when it had been drawn before.
    """

    embedding_id: str
    cohort: str
    day: int
    epsilon: float
    delta: float
    noise: str
    deviation: float
    suppressed: bool
    devices: float | None
    votes: list[list[float]] | None
    duplicate: bool
    created: float


class PrivacyStanding(Answer):
    """The ledger: what all releases of the worst window of days cost a device, beside what they may cost.

    `epsilon` is 0 while publishing is off. `worst_first_day` is where that window begins.
    """

    epsilon: float
    delta: float
    window_days: int
    spent_epsilon: float
    worst_first_day: int
    releases: int
