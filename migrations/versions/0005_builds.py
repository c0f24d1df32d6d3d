"""Schema of the builds service."""

from __future__ import annotations

from alembic import op

revision = "0005_builds"
down_revision = "0004_drift"
branch_labels = None
depends_on = None

SCHEMA = "builds"


def upgrade() -> None:
    op.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")


def downgrade() -> None:
    op.execute(f"DROP SCHEMA {SCHEMA}")
