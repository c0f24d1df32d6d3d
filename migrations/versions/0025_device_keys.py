"""Devices take new keys, and lose the right to speak."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025_device_keys"
down_revision = "0024_revocations"
branch_labels = None
depends_on = None
SCHEMA = "releases"


def upgrade() -> None:
    op.add_column("devices", sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True), schema=SCHEMA)
    op.create_table(
        "retired_device_keys",
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("device_id", sa.Text(), nullable=False),
        sa.Column("retired_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.ForeignKeyConstraint(
            ["device_id"],
            [f"{SCHEMA}.devices.id"],
            name=op.f("fk_retired_device_keys_device_id_devices"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("public_key", name=op.f("pk_retired_device_keys")),
        schema=SCHEMA,
    )
    op.create_index("ix_retired_device_keys_device_id", "retired_device_keys", ["device_id"], schema=SCHEMA)


def downgrade() -> None:
    op.drop_table("retired_device_keys", schema=SCHEMA)
    op.drop_column("devices", "revoked_at", schema=SCHEMA)
