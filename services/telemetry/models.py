"""Tables of telemetry: what devices sent, as it was accepted, once each. No column joins two days of one device.

`reports` and `segments` are partitioned by the day they tell of (tables of the schema `telemetry_days`, see
`partitions`), because a day is forgotten as a whole. `id` rises with every accepted row; the streams follow it.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, DateTime, Identity, Index, Integer, LargeBinary, Text, func
from sqlalchemy.orm import Mapped, mapped_column

from services.kit.database import Base

SCHEMA = "telemetry"


class Report(Base):
    """A daily drift report: the DRF1 bytes, under their natural key. `pseudonym` has 16 bytes."""

    __tablename__ = "reports"
    __table_args__ = (Index("ix_reports_id", "id"), {"schema": SCHEMA, "postgresql_partition_by": "RANGE (day)"})

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True))
    day: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    pseudonym: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    accepted_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
    body: Mapped[bytes] = mapped_column(LargeBinary)


class Segment(Base):
    """A hard-example segment: its JSON as validated, under the id that the device gave it in that hour."""

    __tablename__ = "segments"
    __table_args__ = (Index("ix_segments_id", "id"), {"schema": SCHEMA, "postgresql_partition_by": "RANGE (hour)"})

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True))
    hour: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    segment_id: Mapped[str] = mapped_column(Text, primary_key=True)
    embedding_id: Mapped[str] = mapped_column(Text)
    cohort: Mapped[str] = mapped_column(Text)
    accepted_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
    body: Mapped[bytes] = mapped_column(LargeBinary)


class StreamMark(Base):
    """The durable mark of a stream: every row up to `finished` was taken over by the stream's reader."""

    __tablename__ = "stream_marks"
    __table_args__ = ({"schema": SCHEMA},)

    stream: Mapped[str] = mapped_column(Text, primary_key=True)
    finished: Mapped[int] = mapped_column(BigInteger)


class Refusal(Base):
    """How many messages were refused on a day of the platform's clock, by reason."""

    __tablename__ = "refusals"
    __table_args__ = ({"schema": SCHEMA},)

    day: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    reason: Mapped[str] = mapped_column(Text, primary_key=True)
    count: Mapped[int] = mapped_column(BigInteger)
