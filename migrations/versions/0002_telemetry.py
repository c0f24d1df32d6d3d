"""Tables of telemetry: drift reports and hard-example segments as they were accepted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002_telemetry"
down_revision = "0001_kit"
branch_labels = None
depends_on = None

SCHEMA = "telemetry"
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    op.create_table(
        "reports",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("pseudonym", sa.Text(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("cohort", sa.Text(), nullable=False),
        sa.Column("embedding_id", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("accepted_at", MOMENT, server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_reports"),
        sa.UniqueConstraint("pseudonym", "day", name="uq_reports_pseudonym_day"),
        schema=SCHEMA,
    )
    op.create_table(
        "segments",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("segment_id", sa.Text(), nullable=False),
        sa.Column("embedding_id", sa.Text(), nullable=False),
        sa.Column("hour", sa.Integer(), nullable=False),
        sa.Column("cohort", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("accepted_at", MOMENT, server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_segments"),
        sa.UniqueConstraint("segment_id", name="uq_segments_segment_id"),
        schema=SCHEMA,
    )


def downgrade() -> None:
    for table in ("segments", "reports"):
        op.drop_table(table, schema=SCHEMA)
    op.execute(f"DROP SCHEMA {SCHEMA}")
