"""Keys of the state document: which live, up to when, and which have ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023_state_keys"
down_revision = "0022_gate_limits"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "state_keys",
        sa.Column("public", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("until_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_epoch", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("public", name=op.f("pk_state_keys")),
        schema="releases",
    )


def downgrade() -> None:
    op.drop_table("state_keys", schema="releases")
