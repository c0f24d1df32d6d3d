"""Builds: builds, evaluation sets, measurements."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0005_builds"
down_revision = "0004_drift"
branch_labels = None
depends_on = None

SCHEMA = "builds"


def upgrade() -> None:
    op.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    _builds()
    _evaluation_sets()
    _measurements()


def downgrade() -> None:
    for table in ("measurements", "evaluation_sets", "builds"):
        op.drop_table(table, schema=SCHEMA)
    op.execute(f"DROP SCHEMA {SCHEMA}")


def _builds() -> None:
    op.create_table(
        "builds",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("release_version", sa.Text(), nullable=False),
        sa.Column("security_epoch", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("request", JSONB(), nullable=False),
        sa.Column("inputs", JSONB(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), server_default="", nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("bundle_key", sa.Text(), server_default="", nullable=False),
        sa.Column("evidence_key", sa.Text(), server_default="", nullable=False),
        sa.Column("verdict", JSONB(), nullable=True),
        sa.Column("message", sa.Text(), server_default="", nullable=False),
        sa.Column("remedy", sa.Text(), server_default="", nullable=False),
        sa.Column("production", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.Column("finished", sa.Float(), nullable=True),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("touched_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_builds"),
        schema=SCHEMA,
    )
    op.create_index("ix_builds_created_id", "builds", ["created", "id"], schema=SCHEMA)
    unfinished = sa.text("finished IS NULL")
    op.create_index("ix_builds_unfinished", "builds", ["lease_until"], schema=SCHEMA, postgresql_where=unfinished)
    only_one = sa.text("production")
    op.create_index(
        "uq_builds_production", "builds", ["production"], unique=True, schema=SCHEMA, postgresql_where=only_one
    )


def _evaluation_sets() -> None:
    op.create_table(
        "evaluation_sets",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("condition", sa.Text(), nullable=False),
        sa.Column("frames", sa.Integer(), nullable=False),
        sa.Column("height", sa.Integer(), nullable=False),
        sa.Column("width", sa.Integer(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("object_key", sa.Text(), nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_evaluation_sets"),
        schema=SCHEMA,
    )
    op.create_index("ix_evaluation_sets_created_id", "evaluation_sets", ["created", "id"], schema=SCHEMA)


def _measurements() -> None:
    op.create_table(
        "measurements",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("program", sa.Text(), nullable=False),
        sa.Column("frames_key", sa.Text(), nullable=False),
        sa.Column("lab", sa.Text(), nullable=False),
        sa.Column("result", JSONB(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("digest", "target", "program", "frames_key", "lab", name="pk_measurements"),
        schema=SCHEMA,
    )
