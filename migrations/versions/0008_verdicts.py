"""Verdicts remember: crashes and scores in health, memory of a rollout, alpha spent; the audit trail is a chain."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from services.kit.audit_chain import START, link_hash

revision = "0008_verdicts"
down_revision = "0007_telemetry_days"
branch_labels = None
depends_on = None

RELEASES, KIT = "releases", "kit"
FALSE = sa.text("false")


def upgrade() -> None:
    op.add_column(
        "health", sa.Column("score_reports", sa.Integer(), server_default="0", nullable=False), schema=RELEASES
    )
    op.add_column("health", sa.Column("score_sum", sa.Float(), server_default="0", nullable=False), schema=RELEASES)
    op.add_column("health", sa.Column("crashed", sa.Boolean(), server_default=FALSE, nullable=False), schema=RELEASES)
    op.add_column(
        "health", sa.Column("crash_counted", sa.Boolean(), server_default=FALSE, nullable=False), schema=RELEASES
    )
    op.add_column("rollouts", sa.Column("memory", JSONB(), server_default="{}", nullable=False), schema=RELEASES)
    op.add_column(
        "decisions", sa.Column("alpha_spent", sa.Float(), server_default="0", nullable=False), schema=RELEASES
    )
    op.add_column("audit", sa.Column("place", sa.BigInteger()), schema=KIT)
    op.add_column("audit", sa.Column("link", sa.LargeBinary()), schema=KIT)
    _chain_what_is_there()
    op.create_index("uq_audit_place", "audit", ["place"], unique=True, schema=KIT)
    op.create_index("ix_audit_unchained", "audit", ["id"], schema=KIT, postgresql_where=sa.text("place IS NULL"))


def downgrade() -> None:
    op.drop_index("ix_audit_unchained", "audit", schema=KIT)
    op.drop_index("uq_audit_place", "audit", schema=KIT)
    op.drop_column("audit", "link", schema=KIT)
    op.drop_column("audit", "place", schema=KIT)
    op.drop_column("decisions", "alpha_spent", schema=RELEASES)
    op.drop_column("rollouts", "memory", schema=RELEASES)
    for column in ("crash_counted", "crashed", "score_sum", "score_reports"):
        op.drop_column("health", column, schema=RELEASES)


def _chain_what_is_there() -> None:
    """Older entries are linked in the order of their ids, from now on unchangeable like new ones."""
    connection, link = op.get_bind(), START
    query = "SELECT id, at, actor, action, subject, detail, trace_id FROM kit.audit ORDER BY id"
    statement = sa.text("UPDATE kit.audit SET place = :place, link = :link WHERE id = :id")
    for place, row in enumerate(connection.execute(sa.text(query)).all(), start=1):
        link = link_hash(link, place, row.at, row.actor, row.action, row.subject, row.detail, row.trace_id)
        connection.execute(statement, {"place": place, "link": link, "id": row.id})
