"""Schema of the releases service."""

from __future__ import annotations

from alembic import op

revision = "0006_releases"
down_revision = "0005_builds"
branch_labels = None
depends_on = None

SCHEMA = "releases"


def upgrade() -> None:
    op.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")


def downgrade() -> None:
    op.execute(f"DROP SCHEMA {SCHEMA}")
