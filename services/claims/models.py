"""Table of the schema `claims`. Rows are added and read; the database itself refuses anything else (migration)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import DateTime, Index, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from services.kit.database import Base

SCHEMA = "claims"


class EvidenceRow(Base):
    """Evidence: its manifest, the manifest's SHA-256, who filed it and until when it must be kept."""

    __tablename__ = "evidence"
    __table_args__ = (Index("ix_evidence_filed_at_id", "filed_at", "id"), {"schema": SCHEMA})

    id: Mapped[str] = mapped_column(Text, primary_key=True)
    digest: Mapped[str] = mapped_column(Text)
    manifest: Mapped[dict[str, Any]] = mapped_column(JSONB)  # Any: JSON of Manifest
    filed_by: Mapped[str] = mapped_column(Text)
    filed_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    keep_until: Mapped[datetime] = mapped_column(DateTime(timezone=True))
