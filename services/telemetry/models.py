"""Tables of telemetry: what devices sent, as it was accepted, once each. No column joins two days of one device."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, DateTime, Identity, Integer, LargeBinary, Text, UniqueConstraint, func
from sqlalchemy.orm import Mapped, mapped_column

from services.kit.database import Base

SCHEMA = "telemetry"


class Report(Base):
    """A daily drift report: the DRF1 bytes, under their natural key."""

    __tablename__ = "reports"
    __table_args__ = (UniqueConstraint("pseudonym", "day"), {"schema": SCHEMA})

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    pseudonym: Mapped[str] = mapped_column(Text)
    day: Mapped[int] = mapped_column(Integer)
    cohort: Mapped[str] = mapped_column(Text)
    embedding_id: Mapped[str] = mapped_column(Text)
    body: Mapped[bytes] = mapped_column(LargeBinary)
    accepted_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())


class Segment(Base):
    """A hard-example segment: its JSON as validated, under the id that the device gave it."""

    __tablename__ = "segments"
    __table_args__ = (UniqueConstraint("segment_id"), {"schema": SCHEMA})

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    segment_id: Mapped[str] = mapped_column(Text)
    embedding_id: Mapped[str] = mapped_column(Text)
    hour: Mapped[int] = mapped_column(Integer)
    cohort: Mapped[str] = mapped_column(Text)
    body: Mapped[bytes] = mapped_column(LargeBinary)
    accepted_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
