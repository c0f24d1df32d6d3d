"""The rollouts that one device took part in, without a walk over all."""

from __future__ import annotations

from alembic import op

revision = "0017_device_history"
down_revision = "0016_identity"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_exposures_device_id", "exposures", ["device_id"], schema="releases")


def downgrade() -> None:
    op.drop_index("ix_exposures_device_id", "exposures", schema="releases")
