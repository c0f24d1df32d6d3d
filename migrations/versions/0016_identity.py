"""People: accounts, sessions, API tokens. Operator tokens that held every scope hold the new ones too."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016_identity"
down_revision = "0015_weekday_references"
branch_labels = None
depends_on = None

SCHEMA = "identity"
NOW = sa.text("now()")
NEW = ("identity:read", "identity:write")
FULL = tuple(
    f"{resource}:{verb}"
    for resource in ("telemetry", "curation", "drift", "builds", "releases", "audit")
    for verb in ("read", "write")
)


def _moment(name: str, *, now: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False, server_default=NOW if now else None)


def _of_account(table: str) -> sa.ForeignKeyConstraint:
    name = f"fk_{table}_account_accounts"
    return sa.ForeignKeyConstraint(["account"], [f"{SCHEMA}.accounts.name"], name=name, ondelete="CASCADE")


def upgrade() -> None:
    op.execute(f"CREATE SCHEMA {SCHEMA}")
    op.create_table(
        "accounts",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("password_hash", sa.Text()),
        sa.Column("issuer", sa.Text()),
        sa.Column("subject", sa.Text()),
        sa.Column("disabled", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        _moment("created_at", now=True),
        sa.PrimaryKeyConstraint("name", name="pk_accounts"),
        sa.UniqueConstraint("issuer", "subject", name="uq_accounts_issuer_subject"),
        schema=SCHEMA,
    )
    op.create_table(
        "sessions",
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("account", sa.Text()),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("parent", sa.Text()),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("browser", sa.Text(), server_default="", nullable=False),
        _moment("started_at", now=True),
        _moment("seen_at", now=True),
        _moment("ends_at"),
        _of_account("sessions"),
        sa.PrimaryKeyConstraint("token_id", name="pk_sessions"),
        schema=SCHEMA,
    )
    op.create_index("ix_sessions_holder", "sessions", ["holder"], schema=SCHEMA)
    op.create_index(
        "ix_sessions_parent", "sessions", ["parent"], schema=SCHEMA, postgresql_where=sa.text("parent IS NOT NULL")
    )
    op.create_index("ix_sessions_ends_at", "sessions", ["ends_at"], schema=SCHEMA)
    op.create_table(
        "api_tokens",
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        _of_account("api_tokens"),
        sa.PrimaryKeyConstraint("token_id", name="pk_api_tokens"),
        schema=SCHEMA,
    )
    op.create_index("ix_api_tokens_account", "api_tokens", ["account"], schema=SCHEMA)
    op.create_table(
        "failures",
        sa.Column("name_hash", sa.LargeBinary(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        _moment("last_at"),
        _moment("locked_until"),
        sa.PrimaryKeyConstraint("name_hash", name="pk_failures"),
        schema=SCHEMA,
    )
    op.create_index("ix_failures_last_at", "failures", ["last_at"], schema=SCHEMA)
    op.create_table(
        "provider_sign_ins",
        sa.Column("state_hash", sa.LargeBinary(), nullable=False),
        sa.Column("binding_hash", sa.LargeBinary(), nullable=False),
        sa.Column("nonce", sa.Text(), nullable=False),
        sa.Column("verifier", sa.Text(), nullable=False),
        _moment("expires_at"),
        sa.PrimaryKeyConstraint("state_hash", name="pk_provider_sign_ins"),
        schema=SCHEMA,
    )
    op.create_index("ix_provider_sign_ins_expires_at", "provider_sign_ins", ["expires_at"], schema=SCHEMA)
    widen = sa.text(
        "UPDATE kit.tokens SET scopes = scopes || CAST(:new AS text[])"
        " WHERE kind = 'operator' AND scopes @> CAST(:full AS text[])"
    )
    op.get_bind().execute(widen, {"new": list(NEW), "full": list(FULL)})


def downgrade() -> None:
    """Sessions and API tokens end with their tables; nothing else knows them."""
    op.execute(
        "UPDATE kit.tokens SET revoked_at = now() WHERE revoked_at IS NULL AND id IN"
        " (SELECT token_id FROM identity.sessions UNION SELECT token_id FROM identity.api_tokens)"
    )
    op.execute("UPDATE kit.tokens SET scopes = array_remove(array_remove(scopes, 'identity:read'), 'identity:write')")
    for table in ("provider_sign_ins", "failures", "api_tokens", "sessions", "accounts"):
        op.drop_table(table, schema=SCHEMA)
    op.execute(f"DROP SCHEMA {SCHEMA}")
