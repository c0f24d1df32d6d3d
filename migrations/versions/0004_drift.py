"""Schema of the drift service."""

from __future__ import annotations

from alembic import op

revision = "0004_drift"
down_revision = "0003_curation"
branch_labels = None
depends_on = None

SCHEMA = "drift"


def upgrade() -> None:
    op.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")


def downgrade() -> None:
    op.execute(f"DROP SCHEMA {SCHEMA}")
