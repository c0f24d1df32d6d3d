"""Whom a rollout is for: rules and layers; who approved it; where a bundle comes from; devices that moved away."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0013_targeting"
down_revision = "0012_sealed_bundles"
branch_labels = None
depends_on = None

SCHEMA = "releases"
FALSE = sa.text("false")
FOREIGN = "fk_rollouts_layer_layers"


def upgrade() -> None:
    op.create_table(
        "layers",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("salt", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_layers"),
        schema=SCHEMA,
    )
    for column in (
        sa.Column("rule", sa.Text(), server_default="", nullable=False),
        sa.Column("layer", sa.Text()),
        sa.Column("layer_share", sa.Integer(), server_default="0", nullable=False),
        sa.Column("layer_low", sa.Integer()),
        sa.Column("layer_high", sa.Integer()),
        sa.Column("auto_start", sa.Boolean(), server_default=FALSE, nullable=False),
        sa.Column("approved_by", sa.Text()),
    ):
        op.add_column("rollouts", column, schema=SCHEMA)
    schemas = {"source_schema": SCHEMA, "referent_schema": SCHEMA}
    op.create_foreign_key(FOREIGN, "rollouts", "layers", ["layer"], ["name"], **schemas)
    op.add_column("exposures", sa.Column("moved", sa.Boolean(), server_default=FALSE, nullable=False), schema=SCHEMA)
    op.add_column("bundles", sa.Column("provenance", JSONB(), server_default="{}", nullable=False), schema=SCHEMA)
    op.add_column("bundles", sa.Column("created_by", sa.Text(), server_default="", nullable=False), schema=SCHEMA)


def downgrade() -> None:
    op.drop_column("bundles", "created_by", schema=SCHEMA)
    op.drop_column("bundles", "provenance", schema=SCHEMA)
    op.drop_column("exposures", "moved", schema=SCHEMA)
    op.drop_constraint(FOREIGN, "rollouts", schema=SCHEMA)
    columns = ("approved_by", "auto_start", "layer_high", "layer_low", "layer_share", "layer", "rule")
    for column in columns:
        op.drop_column("rollouts", column, schema=SCHEMA)
    op.drop_table("layers", schema=SCHEMA)
