"""Tables of the schema `identity`: accounts, sessions, API tokens, failed sign-ins, sign-ins at the provider.

The secrets of sessions and API tokens are rows of `kit.tokens`, so every service knows them and a revocation holds
everywhere at once; the rows here say whose they are.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Boolean, DateTime, ForeignKey, Index, Integer, LargeBinary, Text, UniqueConstraint, func
from sqlalchemy.orm import Mapped, mapped_column

from services.kit.database import Base

SCHEMA = "identity"
NOW = func.now()


class AccountRow(Base):
    """A person. Without `password_hash` the provider alone lets them in; `issuer`, `subject` name them there.

    `must_change`: the password is a one-time password, worth nothing after `password_until`. `version` is the ETag.
    """

    __tablename__ = "accounts"
    __table_args__ = (UniqueConstraint("issuer", "subject"), {"schema": SCHEMA})

    name: Mapped[str] = mapped_column(Text, primary_key=True)
    role: Mapped[str] = mapped_column(Text)
    password_hash: Mapped[str | None] = mapped_column(Text)
    issuer: Mapped[str | None] = mapped_column(Text)
    subject: Mapped[str | None] = mapped_column(Text)
    disabled: Mapped[bool] = mapped_column(Boolean, server_default="false")
    version: Mapped[int] = mapped_column(Integer, server_default="1")
    must_change: Mapped[bool] = mapped_column(Boolean, server_default="false")
    password_until: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=NOW)


class SessionRow(Base):
    """A signed-in browser. `token_id` is its row in `kit.tokens`; `holder` the subject, with or without an account."""

    __tablename__ = "sessions"
    __table_args__ = (
        Index("ix_sessions_holder", "holder"),
        Index("ix_sessions_parent", "parent", postgresql_where="parent IS NOT NULL"),
        Index("ix_sessions_ends_at", "ends_at"),
        {"schema": SCHEMA},
    )

    token_id: Mapped[str] = mapped_column(Text, primary_key=True)
    account: Mapped[str | None] = mapped_column(ForeignKey(f"{SCHEMA}.accounts.name", ondelete="CASCADE"))
    holder: Mapped[str] = mapped_column(Text)
    parent: Mapped[str | None] = mapped_column(Text)
    method: Mapped[str] = mapped_column(Text)
    browser: Mapped[str] = mapped_column(Text, server_default="")
    started_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=NOW)
    seen_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=NOW)
    ends_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class ApiTokenRow(Base):
    """An API token that a person made; its secret, scopes and expiry are the row `token_id` of `kit.tokens`."""

    __tablename__ = "api_tokens"
    __table_args__ = (Index("ix_api_tokens_account", "account"), {"schema": SCHEMA})

    token_id: Mapped[str] = mapped_column(Text, primary_key=True)
    account: Mapped[str] = mapped_column(ForeignKey(f"{SCHEMA}.accounts.name", ondelete="CASCADE"))
    label: Mapped[str] = mapped_column(Text)


class FailureRow(Base):
    """Wrong passwords in a row for one name, whether it exists or not. The name is kept as a hash."""

    __tablename__ = "failures"
    __table_args__ = (Index("ix_failures_last_at", "last_at"), {"schema": SCHEMA})

    name_hash: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    count: Mapped[int] = mapped_column(Integer)
    last_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    locked_until: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class ProviderSignInRow(Base):
    """A sign-in that went to the provider and has not come back; used once."""

    __tablename__ = "provider_sign_ins"
    __table_args__ = (Index("ix_provider_sign_ins_expires_at", "expires_at"), {"schema": SCHEMA})

    state_hash: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    binding_hash: Mapped[bytes] = mapped_column(LargeBinary)
    nonce: Mapped[str] = mapped_column(Text)
    verifier: Mapped[str] = mapped_column(Text)
    expires_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
