"""Sealed bundles: wrapped content keys, and the sealing key of each device."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012_sealed_bundles"
down_revision = "0011_ddi"
branch_labels = None
depends_on = None

SCHEMA = "releases"


def upgrade() -> None:
    op.add_column("devices", sa.Column("sealing_key", sa.Text()), schema=SCHEMA)
    barred = sa.Column("keys_barred", sa.Boolean(), server_default=sa.text("false"), nullable=False)
    op.add_column("devices", barred, schema=SCHEMA)
    op.create_table(
        "content_keys",
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("device_class", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("head", sa.LargeBinary(), nullable=False),
        sa.Column("wrapped", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("path", "device_class", name="pk_content_keys"),
        schema=SCHEMA,
    )
    for column in ("digest", "generation"):
        op.create_index(f"ix_content_keys_{column}", "content_keys", [column], schema=SCHEMA)


def downgrade() -> None:
    op.drop_table("content_keys", schema=SCHEMA)
    for column in ("keys_barred", "sealing_key"):
        op.drop_column("devices", column, schema=SCHEMA)
