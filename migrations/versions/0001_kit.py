"""Tables of the shared kit: tokens, outbox, audit trail, idempotent answers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001_kit"
down_revision = None
branch_labels = None
depends_on = None

SCHEMA = "kit"
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    _tokens()
    _outbox()
    _audit()
    _idempotent_answers()


def downgrade() -> None:
    for table in ("idempotent_answers", "audit", "outbox", "tokens"):
        op.drop_table(table, schema=SCHEMA)


def _tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject_id", sa.Text(), nullable=False),
        sa.Column("scopes", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("created_at", MOMENT, server_default=sa.func.now(), nullable=False),
        sa.Column("expires_at", MOMENT),
        sa.Column("revoked_at", MOMENT),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        schema=SCHEMA,
    )
    op.create_index("ix_tokens_kind_subject_id", "tokens", ["kind", "subject_id"], schema=SCHEMA)


def _outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("payload", JSONB(), nullable=False),
        sa.Column("created_at", MOMENT, server_default=sa.func.now(), nullable=False),
        sa.Column("available_at", MOMENT, server_default=sa.func.now(), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("last_error", sa.Text()),
        sa.Column("done_at", MOMENT),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
        sa.UniqueConstraint("topic", "key", name="uq_outbox_topic_key"),
        schema=SCHEMA,
    )
    waiting = sa.text("done_at IS NULL")
    op.create_index("ix_outbox_waiting", "outbox", ["available_at", "id"], schema=SCHEMA, postgresql_where=waiting)


def _audit() -> None:
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("at", MOMENT, server_default=sa.func.now(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("detail", JSONB(), nullable=False),
        sa.Column("trace_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
        schema=SCHEMA,
    )
    op.create_index("ix_audit_subject_id", "audit", ["subject", "id"], schema=SCHEMA)


def _idempotent_answers() -> None:
    op.create_table(
        "idempotent_answers",
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_hash", sa.LargeBinary(), nullable=False),
        sa.Column("answer", JSONB(), nullable=False),
        sa.Column("created_at", MOMENT, server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("subject", "key", name="pk_idempotent_answers"),
        schema=SCHEMA,
    )
