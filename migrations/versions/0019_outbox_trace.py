"""Outbox: a message carries the trace of the request that caused it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019_outbox_trace"
down_revision = "0018_claims"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("outbox", sa.Column("traceparent", sa.Text(), nullable=False, server_default=""), schema="kit")


def downgrade() -> None:
    op.drop_column("outbox", "traceparent", schema="kit")
