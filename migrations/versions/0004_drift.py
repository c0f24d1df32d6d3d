"""Tables of the drift service: observers, device-days, cohort-days, references, evaluations, alarms."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004_drift"
down_revision = "0003_curation"
branch_labels = None
depends_on = None

SCHEMA = "drift"
TABLES = ("observers", "device_days", "rejected", "cohort_days", "cohort_references", "evaluations", "alarms")


def upgrade() -> None:
    op.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    _observers()
    _device_days()
    _rejected()
    _cohort_days()
    _references()
    _evaluations()
    _alarms()


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table, schema=SCHEMA)
    op.execute(f"DROP SCHEMA {SCHEMA}")


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False)


def _whole(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=False)


def _big(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def _number(name: str, nullable: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=nullable)


def _bytes(name: str, nullable: bool = False) -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary(), nullable=nullable)


def _observers() -> None:
    op.create_table(
        "observers",
        _text("embedding_id"),
        _bytes("parameters"),
        _number("created"),
        sa.PrimaryKeyConstraint("embedding_id", name="pk_observers"),
        schema=SCHEMA,
    )


def _device_days() -> None:
    op.create_table(
        "device_days",
        _text("pseudonym"),
        _whole("day"),
        _text("embedding_id"),
        _text("cohort"),
        _bytes("payload", nullable=True),
        sa.PrimaryKeyConstraint("pseudonym", "day", name="pk_device_days"),
        schema=SCHEMA,
    )
    waiting = sa.text("payload IS NOT NULL")
    columns = ["embedding_id", "day"]
    op.create_index("ix_device_days_waiting", "device_days", columns, schema=SCHEMA, postgresql_where=waiting)
    op.create_index("ix_device_days_day", "device_days", ["day"], schema=SCHEMA)


def _rejected() -> None:
    op.create_table(
        "rejected",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        _text("digest"),
        _text("reason"),
        _text("detail"),
        _number("at"),
        sa.PrimaryKeyConstraint("id", name="pk_rejected"),
        sa.UniqueConstraint("digest", "reason", name="uq_rejected_digest_reason"),
        schema=SCHEMA,
    )
    op.create_index("ix_rejected_reason_id", "rejected", ["reason", "id"], schema=SCHEMA)


def _cohort_days() -> None:
    op.create_table(
        "cohort_days",
        _text("embedding_id"),
        _text("cohort"),
        _whole("day"),
        _whole("devices"),
        _big("frames"),
        _big("clipped"),
        _bytes("statistics"),
        sa.PrimaryKeyConstraint("embedding_id", "cohort", "day", name="pk_cohort_days"),
        schema=SCHEMA,
    )
    op.create_index("ix_cohort_days_embedding_id_day", "cohort_days", ["embedding_id", "day"], schema=SCHEMA)


def _references() -> None:
    op.create_table(
        "cohort_references",
        _text("embedding_id"),
        _text("cohort"),
        _whole("version"),
        sa.Column("days", sa.ARRAY(sa.Integer()), nullable=False),
        _whole("devices"),
        _text("cause"),
        _bytes("statistics"),
        _number("created"),
        sa.PrimaryKeyConstraint("embedding_id", "cohort", "version", name="pk_cohort_references"),
        schema=SCHEMA,
    )


def _evaluations() -> None:
    op.create_table(
        "evaluations",
        _text("embedding_id"),
        _text("cohort"),
        _whole("day"),
        _whole("devices"),
        _big("frames"),
        _text("state"),
        _text("reason"),
        _number("p", nullable=True),
        _number("z", nullable=True),
        _number("d", nullable=True),
        _number("js", nullable=True),
        _number("score_mean"),
        _number("evaluated"),
        sa.PrimaryKeyConstraint("embedding_id", "cohort", "day", name="pk_evaluations"),
        schema=SCHEMA,
    )
    columns = ["embedding_id", "day", "cohort"]
    op.create_index("ix_evaluations_embedding_id_day_cohort", "evaluations", columns, schema=SCHEMA)


def _alarms() -> None:
    op.create_table(
        "alarms",
        _text("id"),
        _text("embedding_id"),
        sa.Column("cohorts", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("days", sa.ARRAY(sa.Integer()), nullable=False),
        _number("z"),
        _number("d"),
        _number("js", nullable=True),
        _text("state"),
        _text("action"),
        _text("reason"),
        sa.Column("flow_run_id", sa.Text()),
        _number("created"),
        _number("decided", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_alarms"),
        schema=SCHEMA,
    )
    op.create_index("ix_alarms_created_id", "alarms", ["created", "id"], schema=SCHEMA)
