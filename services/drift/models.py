"""Tables of the schema `drift`. Times are seconds of the platform's clock (`contracts.clock`), which may be
compressed.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Double,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from services.kit.database import Base

SCHEMA = "drift"


class ObserverRow(Base):
    """Parameters of an observer (npz): without its projection the means of its reports cannot be read."""

    __tablename__ = "observers"
    __table_args__ = ({"schema": SCHEMA},)

    embedding_id: Mapped[str] = mapped_column(Text, primary_key=True)
    parameters: Mapped[bytes] = mapped_column(LargeBinary)
    created: Mapped[float] = mapped_column(Double)


class DeviceDay(Base):
    """A report taken exactly once. The payload goes when it has been folded into its cohort-day."""

    __tablename__ = "device_days"
    __table_args__ = (
        Index("ix_device_days_waiting", "embedding_id", "day", postgresql_where="payload IS NOT NULL"),
        Index("ix_device_days_day", "day"),
        {"schema": SCHEMA},
    )

    pseudonym: Mapped[str] = mapped_column(Text, primary_key=True)
    day: Mapped[int] = mapped_column(Integer, primary_key=True)
    embedding_id: Mapped[str] = mapped_column(Text)
    cohort: Mapped[str] = mapped_column(Text)
    payload: Mapped[bytes | None] = mapped_column(LargeBinary)


class Rejected(Base):
    """A report that was counted apart, and why. `digest` (SHA-256) makes a redelivery no second row."""

    __tablename__ = "rejected"
    __table_args__ = (
        UniqueConstraint("digest", "reason"),
        Index("ix_rejected_reason_id", "reason", "id"),
        {"schema": SCHEMA},
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    digest: Mapped[str] = mapped_column(Text)
    reason: Mapped[str] = mapped_column(Text)
    detail: Mapped[str] = mapped_column(Text)
    at: Mapped[float] = mapped_column(Double)


class CohortDayRow(Base):
    """Merged statistics of a cohort on one day (`CohortDayStatistics.to_bytes`)."""

    __tablename__ = "cohort_days"
    __table_args__ = (
        Index("ix_cohort_days_embedding_id_day", "embedding_id", "day"),
        Index("ix_cohort_days_day", "day", "embedding_id"),
        {"schema": SCHEMA},
    )

    embedding_id: Mapped[str] = mapped_column(Text, primary_key=True)
    cohort: Mapped[str] = mapped_column(Text, primary_key=True)
    day: Mapped[int] = mapped_column(Integer, primary_key=True)
    devices: Mapped[int] = mapped_column(Integer)
    frames: Mapped[int] = mapped_column(BigInteger)
    clipped: Mapped[int] = mapped_column(BigInteger)
    statistics: Mapped[bytes] = mapped_column(LargeBinary)
    shards: Mapped[bytes | None] = mapped_column(LargeBinary)


class ReferenceRow(Base):
    """Frozen baseline of a cohort (`Reference.to_bytes`). A re-reference adds a higher version."""

    __tablename__ = "cohort_references"
    __table_args__ = ({"schema": SCHEMA},)

    embedding_id: Mapped[str] = mapped_column(Text, primary_key=True)
    cohort: Mapped[str] = mapped_column(Text, primary_key=True)
    version: Mapped[int] = mapped_column(Integer, primary_key=True)
    days: Mapped[list[int]] = mapped_column(ARRAY(Integer))
    devices: Mapped[int] = mapped_column(Integer)
    cause: Mapped[str] = mapped_column(Text)
    statistics: Mapped[bytes] = mapped_column(LargeBinary)
    created: Mapped[float] = mapped_column(Double)


class WeekdayReferenceRow(Base):
    """Frozen baseline of one weekday (day modulo 7) of a cohort, beside the cohort's reference of that version."""

    __tablename__ = "weekday_references"
    __table_args__ = ({"schema": SCHEMA},)

    embedding_id: Mapped[str] = mapped_column(Text, primary_key=True)
    cohort: Mapped[str] = mapped_column(Text, primary_key=True)
    weekday: Mapped[int] = mapped_column(Integer, primary_key=True)
    version: Mapped[int] = mapped_column(Integer, primary_key=True)
    days: Mapped[list[int]] = mapped_column(ARRAY(Integer))
    devices: Mapped[int] = mapped_column(Integer)
    statistics: Mapped[bytes] = mapped_column(LargeBinary)
    created: Mapped[float] = mapped_column(Double)


class Evaluation(Base):
    """Verdict on a cohort-day. `devices` tells which state of the cohort-day was judged."""

    __tablename__ = "evaluations"
    __table_args__ = (
        Index("ix_evaluations_embedding_id_day_cohort", "embedding_id", "day", "cohort"),
        {"schema": SCHEMA},
    )

    embedding_id: Mapped[str] = mapped_column(Text, primary_key=True)
    cohort: Mapped[str] = mapped_column(Text, primary_key=True)
    day: Mapped[int] = mapped_column(Integer, primary_key=True)
    devices: Mapped[int] = mapped_column(Integer)
    frames: Mapped[int] = mapped_column(BigInteger)
    state: Mapped[str] = mapped_column(Text)
    reason: Mapped[str] = mapped_column(Text)
    p: Mapped[float | None] = mapped_column(Double)
    z: Mapped[float | None] = mapped_column(Double)
    d: Mapped[float | None] = mapped_column(Double)
    js: Mapped[float | None] = mapped_column(Double)
    score_mean: Mapped[float] = mapped_column(Double)
    z_residual: Mapped[float | None] = mapped_column(Double)
    residual: Mapped[float | None] = mapped_column(Double)
    directions: Mapped[list[dict[str, float]]] = mapped_column(JSONB, server_default="[]", default=list)
    quality_rise_db: Mapped[float | None] = mapped_column(Double)
    quality_fell: Mapped[bool | None] = mapped_column(Boolean)
    thresholds: Mapped[int | None] = mapped_column(BigInteger)
    evaluated: Mapped[float] = mapped_column(Double)


class Alarm(Base):
    """Cohorts that drifted on enough days. The id is the natural key (embedding, cohorts, days)."""

    __tablename__ = "alarms"
    __table_args__ = (Index("ix_alarms_created_id", "created", "id"), {"schema": SCHEMA})

    id: Mapped[str] = mapped_column(Text, primary_key=True)
    embedding_id: Mapped[str] = mapped_column(Text)
    cohorts: Mapped[list[str]] = mapped_column(ARRAY(Text))
    days: Mapped[list[int]] = mapped_column(ARRAY(Integer))
    z: Mapped[float] = mapped_column(Double)
    d: Mapped[float] = mapped_column(Double)
    js: Mapped[float | None] = mapped_column(Double)
    state: Mapped[str] = mapped_column(Text)
    action: Mapped[str] = mapped_column(Text)
    reason: Mapped[str] = mapped_column(Text)
    flow_run_id: Mapped[str | None] = mapped_column(Text)
    residual: Mapped[float | None] = mapped_column(Double)
    directions: Mapped[list[dict[str, float]]] = mapped_column(JSONB, server_default="[]", default=list)
    quality_fell: Mapped[bool | None] = mapped_column(Boolean)
    created: Mapped[float] = mapped_column(Double)
    decided: Mapped[float | None] = mapped_column(Double)


class Rebase(Base):
    """A release after which cohorts are compared with days since then. An empty list of classes means all."""

    __tablename__ = "rebases"
    __table_args__ = ({"schema": SCHEMA},)

    release: Mapped[str] = mapped_column(Text, primary_key=True)
    device_classes: Mapped[list[str]] = mapped_column(ARRAY(Text))
    finished: Mapped[float] = mapped_column(Double)
    created: Mapped[float] = mapped_column(Double)


class ThresholdRow(Base):
    """Thresholds of one cohort or device class (`npu-4t/*`) that differ from the settings; the newest row counts."""

    __tablename__ = "thresholds"
    __table_args__ = (Index("ix_thresholds_cohorts_id", "cohorts", "id"), {"schema": SCHEMA})

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    cohorts: Mapped[str] = mapped_column(Text)
    values: Mapped[dict[str, float]] = mapped_column(JSONB)
    reason: Mapped[str] = mapped_column(Text)
    author: Mapped[str] = mapped_column(Text)
    created: Mapped[float] = mapped_column(Double)


class CalibrationRow(Base):
    """The A/A report of one week (whole weeks since 1970) of one embedding."""

    __tablename__ = "calibrations"
    __table_args__ = ({"schema": SCHEMA},)

    embedding_id: Mapped[str] = mapped_column(Text, primary_key=True)
    week: Mapped[int] = mapped_column(Integer, primary_key=True)
    report: Mapped[dict[str, Any]] = mapped_column(JSONB)  # Any: `CalibrationReport` as JSON
    created: Mapped[float] = mapped_column(Double)


class PublishedRow(Base):
    """A cohort-day that was published, with its promise and its cost (`rho`, zCDP): the privacy ledger.

    Rows are never changed or removed. `devices` and `votes` (8 x 16) are null when the cohort was too small.
    """

    __tablename__ = "published_days"
    __table_args__ = (Index("ix_published_days_day_cohort", "day", "cohort"), {"schema": SCHEMA})

    embedding_id: Mapped[str] = mapped_column(Text, primary_key=True)
    cohort: Mapped[str] = mapped_column(Text, primary_key=True)
    day: Mapped[int] = mapped_column(Integer, primary_key=True)
    epsilon: Mapped[float] = mapped_column(Double)
    delta: Mapped[float] = mapped_column(Double)
    rho: Mapped[float] = mapped_column(Double)
    noise: Mapped[str] = mapped_column(Text)
    deviation: Mapped[float] = mapped_column(Double)
    devices: Mapped[float | None] = mapped_column(Double)
    votes: Mapped[list[list[float]] | None] = mapped_column(JSONB(none_as_null=True))
    reason: Mapped[str] = mapped_column(Text)
    author: Mapped[str] = mapped_column(Text)
    created: Mapped[float] = mapped_column(Double)
