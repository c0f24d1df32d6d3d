"""Tables of the hawkBit DDI adapter: devices' consent, actions, artifacts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0011_ddi"
down_revision = "0010_curation_apply"
branch_labels = None
depends_on = None

SCHEMA = "releases"
TRUE = sa.text("true")


def upgrade() -> None:
    op.create_table(
        "ddi_devices",
        sa.Column("device_id", sa.Text(), nullable=False),
        sa.Column("auto_confirm", sa.Boolean(), server_default=TRUE, nullable=False),
        sa.Column("wants_attributes", sa.Boolean(), server_default=TRUE, nullable=False),
        sa.Column("installed_action", sa.Integer()),
        _of_device("ddi_devices"),
        sa.PrimaryKeyConstraint("device_id", name="pk_ddi_devices"),
        schema=SCHEMA,
    )
    op.create_table(
        "ddi_actions",
        sa.Column("id", sa.Integer(), sa.Identity(always=True), nullable=False),
        sa.Column("device_id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.Column("history", JSONB(), server_default="[]", nullable=False),
        _of_device("ddi_actions"),
        _of_bundle("ddi_actions"),
        sa.PrimaryKeyConstraint("id", name="pk_ddi_actions"),
        schema=SCHEMA,
    )
    op.create_index("ix_ddi_actions_device_id_id", "ddi_actions", ["device_id", "id"], schema=SCHEMA)
    op.create_table(
        "ddi_artifacts",
        sa.Column("id", sa.Integer(), sa.Identity(always=True), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("filename", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("sha1", sa.Text(), nullable=False),
        sa.Column("md5", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        _of_bundle("ddi_artifacts"),
        sa.PrimaryKeyConstraint("id", name="pk_ddi_artifacts"),
        sa.UniqueConstraint("digest", name="uq_ddi_artifacts_digest"),
        schema=SCHEMA,
    )


def downgrade() -> None:
    for table in ("ddi_artifacts", "ddi_actions", "ddi_devices"):
        op.drop_table(table, schema=SCHEMA)


def _of_device(table: str) -> sa.ForeignKeyConstraint:
    name = f"fk_{table}_device_id_devices"
    return sa.ForeignKeyConstraint(["device_id"], [f"{SCHEMA}.devices.id"], name=name, ondelete="CASCADE")


def _of_bundle(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["digest"], [f"{SCHEMA}.bundles.digest"], name=f"fk_{table}_digest_bundles")
