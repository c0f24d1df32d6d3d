"""Drift: energy outside the subspace, directions, quality change, parts for A/A reports, thresholds, re-references."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0009_drift_evidence"
down_revision = "0008_verdicts"
branch_labels = None
depends_on = None

SCHEMA = "drift"
TABLES = ("rebases", "thresholds", "calibrations")


def upgrade() -> None:
    for table, column in _columns():
        op.add_column(table, column, schema=SCHEMA)
    _rebases()
    _thresholds()
    _calibrations()


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table, schema=SCHEMA)
    for table, column in reversed(_columns()):
        op.drop_column(table, column.name, schema=SCHEMA)


def _columns() -> list[tuple[str, sa.Column[object]]]:
    return [
        ("cohort_days", sa.Column("shards", sa.LargeBinary())),
        ("evaluations", sa.Column("z_residual", sa.Double())),
        ("evaluations", sa.Column("residual", sa.Double())),
        ("evaluations", sa.Column("directions", JSONB(), nullable=False, server_default="[]")),
        ("evaluations", sa.Column("quality_rise_db", sa.Double())),
        ("evaluations", sa.Column("quality_fell", sa.Boolean())),
        ("evaluations", sa.Column("thresholds", sa.BigInteger())),
        ("alarms", sa.Column("residual", sa.Double())),
        ("alarms", sa.Column("directions", JSONB(), nullable=False, server_default="[]")),
        ("alarms", sa.Column("quality_fell", sa.Boolean())),
    ]


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False)


def _number(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=False)


def _rebases() -> None:
    op.create_table(
        "rebases",
        _text("release"),
        sa.Column("device_classes", sa.ARRAY(sa.Text()), nullable=False),
        _number("finished"),
        _number("created"),
        sa.PrimaryKeyConstraint("release", name="pk_rebases"),
        schema=SCHEMA,
    )


def _thresholds() -> None:
    op.create_table(
        "thresholds",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        _text("cohorts"),
        sa.Column("values", JSONB(), nullable=False),
        _text("reason"),
        _text("author"),
        _number("created"),
        sa.PrimaryKeyConstraint("id", name="pk_thresholds"),
        schema=SCHEMA,
    )
    op.create_index("ix_thresholds_cohorts_id", "thresholds", ["cohorts", "id"], schema=SCHEMA)


def _calibrations() -> None:
    op.create_table(
        "calibrations",
        _text("embedding_id"),
        sa.Column("week", sa.Integer(), nullable=False),
        sa.Column("report", JSONB(), nullable=False),
        _number("created"),
        sa.PrimaryKeyConstraint("embedding_id", "week", name="pk_calibrations"),
        schema=SCHEMA,
    )
