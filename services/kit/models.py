"""Tables of the schema `kit`: tokens, outbox, audit trail, idempotent answers."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ARRAY, BigInteger, DateTime, Identity, Index, Integer, LargeBinary, Text, UniqueConstraint, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from services.kit.database import Base

SCHEMA = "kit"


class Token(Base):
    """An access token. Only the SHA-256 of its secret is kept."""

    __tablename__ = "tokens"
    __table_args__ = (
        Index("ix_tokens_kind_subject_id", "kind", "subject_id"),
        Index("ix_tokens_revoked_at", "revoked_at", postgresql_where="revoked_at IS NOT NULL"),
        {"schema": SCHEMA},
    )

    id: Mapped[str] = mapped_column(Text, primary_key=True)
    secret_hash: Mapped[bytes] = mapped_column(LargeBinary)
    kind: Mapped[str] = mapped_column(Text)
    subject_id: Mapped[str] = mapped_column(Text)
    scopes: Mapped[list[str]] = mapped_column(ARRAY(Text))
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
    expires_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    revoked_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))


class OutboxRow(Base):
    """A message that leaves after its transaction committed. `(topic, key)` happens once, ever."""

    __tablename__ = "outbox"
    __table_args__ = (
        UniqueConstraint("topic", "key"),
        Index("ix_outbox_waiting", "available_at", "id", postgresql_where="done_at IS NULL"),
        {"schema": SCHEMA},
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    topic: Mapped[str] = mapped_column(Text)
    key: Mapped[str] = mapped_column(Text)
    payload: Mapped[dict[str, Any]] = mapped_column(JSONB)  # Any: JSON
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
    available_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
    attempts: Mapped[int] = mapped_column(Integer, server_default="0")
    last_error: Mapped[str | None] = mapped_column(Text)
    done_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    traceparent: Mapped[str] = mapped_column(Text, server_default="")


class AuditEntry(Base):
    """Who did what to what, and when. Rows are only ever added; `place` and `link` chain them (audit_chain.py)."""

    __tablename__ = "audit"
    __table_args__ = (
        Index("ix_audit_subject_id", "subject", "id"),
        Index("ix_audit_actor_id", "actor", "id"),
        Index("ix_audit_action_id", "action", "id"),
        Index("uq_audit_place", "place", unique=True),
        Index("ix_audit_unchained", "id", postgresql_where="place IS NULL"),
        {"schema": SCHEMA},
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    place: Mapped[int | None] = mapped_column(BigInteger)
    link: Mapped[bytes | None] = mapped_column(LargeBinary)
    at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
    actor: Mapped[str] = mapped_column(Text)
    action: Mapped[str] = mapped_column(Text)
    subject: Mapped[str] = mapped_column(Text)
    detail: Mapped[dict[str, Any]] = mapped_column(JSONB)  # Any: JSON
    trace_id: Mapped[str] = mapped_column(Text)


class IdempotentAnswer(Base):
    """The answer once given to `(subject, key)`, so that a retry gets the same one."""

    __tablename__ = "idempotent_answers"
    __table_args__ = ({"schema": SCHEMA},)

    subject: Mapped[str] = mapped_column(Text, primary_key=True)
    key: Mapped[str] = mapped_column(Text, primary_key=True)
    request_hash: Mapped[bytes] = mapped_column(LargeBinary)
    answer: Mapped[dict[str, Any]] = mapped_column(JSONB)  # Any: JSON
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
