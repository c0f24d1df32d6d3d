"""Schema of the curation service."""

from __future__ import annotations

from alembic import op

revision = "0003_curation"
down_revision = "0002_telemetry"
branch_labels = None
depends_on = None

SCHEMA = "curation"


def upgrade() -> None:
    op.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")


def downgrade() -> None:
    op.execute(f"DROP SCHEMA {SCHEMA}")
