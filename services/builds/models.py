"""Tables of the schema `builds`. `created` and `finished` are simulated seconds, leases are real time."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Boolean, DateTime, Float, Index, Integer, Text, func, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from services.kit.database import Base

SCHEMA = "builds"


class BuildRow(Base):
    """A build: what was sent, where it stands, what came out. At most one row is production."""

    __tablename__ = "builds"
    __table_args__ = (
        Index("ix_builds_created_id", "created", "id"),
        Index("ix_builds_unfinished", "lease_until", postgresql_where=text("finished IS NULL")),
        Index("uq_builds_production", "production", unique=True, postgresql_where=text("production")),
        {"schema": SCHEMA},
    )

    id: Mapped[str] = mapped_column(Text, primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    release_version: Mapped[str] = mapped_column(Text)
    security_epoch: Mapped[int] = mapped_column(Integer)
    state: Mapped[str] = mapped_column(Text)
    request: Mapped[dict[str, Any]] = mapped_column(JSONB)  # Any: JSON of BuildRequest
    inputs: Mapped[dict[str, Any]] = mapped_column(JSONB)  # Any: JSON, {part: {key, sha256, length}}
    subject: Mapped[str] = mapped_column(Text)
    digest: Mapped[str] = mapped_column(Text, server_default="")
    size_bytes: Mapped[int] = mapped_column(BigInteger, server_default="0")
    bundle_key: Mapped[str] = mapped_column(Text, server_default="")
    evidence_key: Mapped[str] = mapped_column(Text, server_default="")
    verdict: Mapped[dict[str, Any] | None] = mapped_column(JSONB)  # Any: JSON of GateVerdict
    search: Mapped[dict[str, Any] | None] = mapped_column(JSONB, deferred=True)  # Any: JSON of SearchRecord
    message: Mapped[str] = mapped_column(Text, server_default="")
    remedy: Mapped[str] = mapped_column(Text, server_default="")
    production: Mapped[bool] = mapped_column(Boolean, server_default="false")
    created: Mapped[float] = mapped_column(Float)
    finished: Mapped[float | None] = mapped_column(Float)
    lease_owner: Mapped[str | None] = mapped_column(Text)
    lease_until: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    attempts: Mapped[int] = mapped_column(Integer, server_default="0")
    touched_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())


class EvaluationSetRow(Base):
    """Held-out frames with ground truth. Immutable: the id is the content's hash."""

    __tablename__ = "evaluation_sets"
    __table_args__ = (Index("ix_evaluation_sets_created_id", "created", "id"), {"schema": SCHEMA})

    id: Mapped[str] = mapped_column(Text, primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    condition: Mapped[str] = mapped_column(Text)
    frames: Mapped[int] = mapped_column(Integer)
    height: Mapped[int] = mapped_column(Integer)
    width: Mapped[int] = mapped_column(Integer)
    sha256: Mapped[str] = mapped_column(Text)
    object_key: Mapped[str] = mapped_column(Text)
    created: Mapped[float] = mapped_column(Float)


class MeasurementRow(Base):
    """What a device showed of one bundle: kept, so that neither a retry nor the next gate plays it again."""

    __tablename__ = "measurements"
    __table_args__ = ({"schema": SCHEMA},)

    digest: Mapped[str] = mapped_column(Text, primary_key=True)
    target: Mapped[str] = mapped_column(Text, primary_key=True)
    program: Mapped[str] = mapped_column(Text, primary_key=True)
    frames_key: Mapped[str] = mapped_column(Text, primary_key=True)
    lab: Mapped[str] = mapped_column(Text, primary_key=True)
    result: Mapped[dict[str, Any]] = mapped_column(JSONB)  # Any: JSON of Measurement
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())


class GateLimitsRow(Base):
    """Thresholds of the gate, from the first build that they judged. Rows are only added."""

    __tablename__ = "gate_limits"
    __table_args__ = ({"schema": SCHEMA},)

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    limits: Mapped[dict[str, Any]] = mapped_column(JSONB)  # Any: JSON of GateLimits
    since: Mapped[float] = mapped_column(Float)
    build_id: Mapped[str] = mapped_column(Text)
