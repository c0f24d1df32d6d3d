"""Drift: references of single weekdays, beside those of the cohorts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015_weekday_references"
down_revision = "0014_published_days"
branch_labels = None
depends_on = None

SCHEMA, TABLE = "drift", "weekday_references"
KEY = ("embedding_id", "cohort", "weekday", "version")


def upgrade() -> None:
    op.create_table(
        TABLE,
        sa.Column("embedding_id", sa.Text(), nullable=False),
        sa.Column("cohort", sa.Text(), nullable=False),
        sa.Column("weekday", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("days", sa.ARRAY(sa.Integer()), nullable=False),
        sa.Column("devices", sa.Integer(), nullable=False),
        sa.Column("statistics", sa.LargeBinary(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint(*KEY, name="pk_weekday_references"),
        schema=SCHEMA,
    )


def downgrade() -> None:
    op.drop_table(TABLE, schema=SCHEMA)
