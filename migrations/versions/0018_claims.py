"""Claims: evidence that is written once and kept for three years, by the database's own rule."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0018_claims"
down_revision = "0017_device_history"
branch_labels = None
depends_on = None

SCHEMA = "claims"

KEEP = """
CREATE FUNCTION claims.keep_evidence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        RAISE EXCEPTION 'evidence is never emptied' USING ERRCODE = 'restrict_violation';
    END IF;
    IF TG_OP = 'DELETE' AND OLD.keep_until <= now() THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'evidence % is written once and kept until %', OLD.id, OLD.keep_until
        USING ERRCODE = 'restrict_violation';
END $$
"""


def upgrade() -> None:
    op.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    op.create_table(
        "evidence",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("manifest", JSONB(), nullable=False),
        sa.Column("filed_by", sa.Text(), nullable=False),
        sa.Column("filed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("keep_until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_evidence"),
        sa.CheckConstraint(
            "timezone('UTC', filed_at) + interval '3 years' <= timezone('UTC', keep_until)",
            name=op.f("ck_evidence_three_years"),
        ),
        schema=SCHEMA,
    )
    op.create_index("ix_evidence_filed_at_id", "evidence", ["filed_at", "id"], schema=SCHEMA)
    op.execute(KEEP)
    op.execute(
        "CREATE TRIGGER keep_evidence BEFORE UPDATE OR DELETE ON claims.evidence "
        "FOR EACH ROW EXECUTE FUNCTION claims.keep_evidence()"
    )
    op.execute(
        "CREATE TRIGGER keep_all_evidence BEFORE TRUNCATE ON claims.evidence "
        "FOR EACH STATEMENT EXECUTE FUNCTION claims.keep_evidence()"
    )


def downgrade() -> None:
    op.drop_table("evidence", schema=SCHEMA)
    op.execute("DROP FUNCTION claims.keep_evidence()")
    op.execute(f"DROP SCHEMA {SCHEMA}")
