"""Accounts: a version for edits, and passwords that are good for one sign-in."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021_account_versions"
down_revision = "0020_build_search"
branch_labels = None
depends_on = None

NEW = ("version", "must_change", "password_until")


def upgrade() -> None:
    columns = (
        sa.Column("version", sa.Integer(), nullable=False, server_default="1"),
        sa.Column("must_change", sa.Boolean(), nullable=False, server_default=sa.text("false")),
        sa.Column("password_until", sa.DateTime(timezone=True)),
    )
    for column in columns:
        op.add_column("accounts", column, schema="identity")


def downgrade() -> None:
    for name in reversed(NEW):
        op.drop_column("accounts", name, schema="identity")
