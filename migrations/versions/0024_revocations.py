"""Tokens by the time of their revocation, for the sweep of the cache."""

from __future__ import annotations

from alembic import op

revision = "0024_revocations"
down_revision = "0023_state_keys"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "ix_tokens_revoked_at", "tokens", ["revoked_at"], schema="kit", postgresql_where="revoked_at IS NOT NULL"
    )


def downgrade() -> None:
    op.drop_index("ix_tokens_revoked_at", "tokens", schema="kit")
