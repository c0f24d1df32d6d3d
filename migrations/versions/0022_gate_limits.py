"""Builds: which thresholds the gate went by since when."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0022_gate_limits"
down_revision = "0021_account_versions"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "gate_limits",
        sa.Column("id", sa.BigInteger(), nullable=False),
        sa.Column("limits", JSONB(), nullable=False),
        sa.Column("since", sa.Float(), nullable=False),
        sa.Column("build_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_gate_limits"),
        schema="builds",
    )


def downgrade() -> None:
    op.drop_table("gate_limits", schema="builds")
