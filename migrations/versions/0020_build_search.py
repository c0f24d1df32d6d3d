"""Builds: the search that a model comes from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0020_build_search"
down_revision = "0019_outbox_trace"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("builds", sa.Column("search", JSONB()), schema="builds")


def downgrade() -> None:
    op.drop_column("builds", "search", schema="builds")
