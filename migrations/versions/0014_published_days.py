"""Drift: cohort-days that were published, and what they cost: the privacy ledger."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0014_published_days"
down_revision = "0013_targeting"
branch_labels = None
depends_on = None

SCHEMA, TABLE = "drift", "published_days"
TEXTS = ("noise", "reason", "author")
NUMBERS = ("epsilon", "delta", "rho", "deviation", "created")


def upgrade() -> None:
    op.create_table(
        TABLE,
        sa.Column("embedding_id", sa.Text(), nullable=False),
        sa.Column("cohort", sa.Text(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Double(), nullable=False) for name in NUMBERS),
        *(sa.Column(name, sa.Text(), nullable=False) for name in TEXTS),
        sa.Column("devices", sa.Double()),
        sa.Column("votes", JSONB()),
        sa.PrimaryKeyConstraint("embedding_id", "cohort", "day", name="pk_published_days"),
        schema=SCHEMA,
    )
    op.create_index("ix_published_days_day_cohort", TABLE, ["day", "cohort"], schema=SCHEMA)


def downgrade() -> None:
    op.drop_table(TABLE, schema=SCHEMA)
