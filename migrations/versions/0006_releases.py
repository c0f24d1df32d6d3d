"""Tables of the releases service: devices, bundles, rollouts with their evidence, the state document."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0006_releases"
down_revision = "0005_builds"
branch_labels = None
depends_on = None

SCHEMA = "releases"
MOMENT = sa.DateTime(timezone=True)
TABLES = (
    "alerts",
    "bundles",
    "control",
    "devices",
    "enrolment_tokens",
    "state_documents",
    "feedback_items",
    "rollouts",
    "decisions",
    "exposures",
    "health",
    "rollout_stages",
)


def upgrade() -> None:
    op.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    _alerts()
    _bundles()
    _control()
    _devices()
    _enrolment_tokens()
    _state_documents()
    _feedback_items()
    _rollouts()
    _decisions()
    _exposures()
    _health()
    _rollout_stages()
    op.execute(f"INSERT INTO {SCHEMA}.control VALUES (1, 0, false, '', 0, NULL)")  # noqa: S608  # a constant


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table, schema=SCHEMA)
    op.execute(f"DROP SCHEMA {SCHEMA}")


def _alerts() -> None:
    op.create_table(
        "alerts",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_alerts"),
        schema=SCHEMA,
    )


def _bundles() -> None:
    op.create_table(
        "bundles",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("release_version", sa.Text(), nullable=False),
        sa.Column("security_epoch", sa.Integer(), nullable=False),
        sa.Column("length", sa.BigInteger(), nullable=False),
        sa.Column("build_id", sa.Text(), nullable=False),
        sa.Column("target_path", sa.Text(), nullable=False),
        sa.Column("targets", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.Column("revoked", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_bundles"),
        schema=SCHEMA,
    )
    op.create_index("ix_bundles_created", "bundles", ["created", "digest"], schema=SCHEMA)


def _control() -> None:
    op.create_table(
        "control",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("killed", sa.Boolean(), nullable=False),
        sa.Column("kill_reason", sa.Text(), nullable=False),
        sa.Column("security_epoch_floor", sa.Integer(), nullable=False),
        sa.Column("baseline_digest", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_control"),
        schema=SCHEMA,
    )


def _devices() -> None:
    op.create_table(
        "devices",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("device_class", sa.Text(), nullable=False),
        sa.Column("tags", JSONB(), nullable=False),
        sa.Column("agent_version", sa.Text(), nullable=False),
        sa.Column("running_digest", sa.Text(), server_default="", nullable=False),
        sa.Column("slot_stage", sa.Text(), server_default="", nullable=False),
        sa.Column("last_cause", sa.Text(), server_default="", nullable=False),
        sa.Column("sequence", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("state_epoch", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("enrolled", sa.Float(), nullable=False),
        sa.Column("last_feedback", sa.Float()),
        sa.PrimaryKeyConstraint("id", name="pk_devices"),
        sa.UniqueConstraint("public_key", name="uq_devices_public_key"),
        schema=SCHEMA,
    )
    op.create_index("ix_devices_device_class", "devices", ["device_class"], schema=SCHEMA)


def _enrolment_tokens() -> None:
    op.create_table(
        "enrolment_tokens",
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("uses_left", sa.Integer(), nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", MOMENT, server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("token_hash", name="pk_enrolment_tokens"),
        schema=SCHEMA,
    )


def _state_documents() -> None:
    op.create_table(
        "state_documents",
        sa.Column("epoch", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.Column("issued_at", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("epoch", name="pk_state_documents"),
        schema=SCHEMA,
    )


def _feedback_items() -> None:
    op.create_table(
        "feedback_items",
        sa.Column("device_id", sa.Text(), nullable=False),
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("received_at", MOMENT, server_default=sa.func.now(), nullable=False),
        sa.ForeignKeyConstraint(
            ["device_id"],
            [f"{SCHEMA}.devices.id"],
            name="fk_feedback_items_device_id_devices",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("device_id", "item_id", name="pk_feedback_items"),
        schema=SCHEMA,
    )
    op.create_index("ix_feedback_items_received_at", "feedback_items", ["received_at"], schema=SCHEMA)


def _rollouts() -> None:
    op.create_table(
        "rollouts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("stage", sa.Integer(), server_default="0", nullable=False),
        sa.Column("selector", JSONB(), nullable=False),
        sa.Column("selector_key", sa.Text(), nullable=False),
        sa.Column("requested", sa.ARRAY(sa.Integer()), nullable=False),
        sa.Column("salt", sa.Text(), nullable=False),
        sa.Column("soak_s", sa.Float(), nullable=False),
        sa.Column("min_devices", sa.Integer(), nullable=False),
        sa.Column("silent_after_s", sa.Float(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), server_default="", nullable=False),
        sa.Column("cause", sa.Text(), server_default="", nullable=False),
        sa.Column("version", sa.Integer(), server_default="1", nullable=False),
        sa.Column("human_actions", sa.Integer(), server_default="0", nullable=False),
        sa.Column("first_release", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("previous_digest", sa.Text()),
        sa.Column("standing", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.Column("finished", sa.Float()),
        sa.ForeignKeyConstraint(["digest"], [f"{SCHEMA}.bundles.digest"], name="fk_rollouts_digest_bundles"),
        sa.PrimaryKeyConstraint("id", name="pk_rollouts"),
        schema=SCHEMA,
    )
    op.create_index("ix_rollouts_created", "rollouts", ["created", "id"], schema=SCHEMA)
    op.create_index("ix_rollouts_digest", "rollouts", ["digest"], schema=SCHEMA)
    op.create_index(
        "uq_rollouts_active_selector",
        "rollouts",
        ["selector_key"],
        unique=True,
        schema=SCHEMA,
        postgresql_where=sa.text("state IN ('running', 'paused')"),
    )


def _decisions() -> None:
    op.create_table(
        "decisions",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("rollout_id", sa.Text(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("stage", sa.Integer(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("worst", sa.Text(), nullable=False),
        sa.Column("alpha_each", sa.Float(), nullable=False),
        sa.Column("code_version", sa.Text(), nullable=False),
        sa.Column("inputs", JSONB(), nullable=False),
        sa.Column("readings", JSONB(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["rollout_id"],
            [f"{SCHEMA}.rollouts.id"],
            name="fk_decisions_rollout_id_rollouts",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_decisions"),
        schema=SCHEMA,
    )
    op.create_index("ix_decisions_rollout_id_id", "decisions", ["rollout_id", "id"], schema=SCHEMA)


def _exposures() -> None:
    op.create_table(
        "exposures",
        sa.Column("rollout_id", sa.Text(), nullable=False),
        sa.Column("device_id", sa.Text(), nullable=False),
        sa.Column("stratum", sa.Text(), nullable=False),
        sa.Column("bucket", sa.Integer(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("failed", sa.Boolean(), nullable=False),
        sa.Column("confirmed", sa.Boolean(), nullable=False),
        sa.Column("heard", sa.Boolean(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("started", sa.Float(), nullable=False),
        sa.Column("started_at", MOMENT, server_default=sa.func.now(), nullable=False),
        sa.ForeignKeyConstraint(
            ["device_id"], [f"{SCHEMA}.devices.id"], name="fk_exposures_device_id_devices", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["rollout_id"],
            [f"{SCHEMA}.rollouts.id"],
            name="fk_exposures_rollout_id_rollouts",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("rollout_id", "device_id", name="pk_exposures"),
        schema=SCHEMA,
    )


def _health() -> None:
    op.create_table(
        "health",
        sa.Column("rollout_id", sa.Text(), nullable=False),
        sa.Column("device_id", sa.Text(), nullable=False),
        sa.Column("arm", sa.Text(), nullable=False),
        sa.Column("stratum", sa.Text(), nullable=False),
        sa.Column("bucket", sa.Integer(), nullable=False),
        sa.Column("frames", sa.BigInteger(), nullable=False),
        sa.Column("driver_errors", sa.BigInteger(), nullable=False),
        sa.Column("deadline_misses", sa.BigInteger(), nullable=False),
        sa.Column("cpu_frames", sa.BigInteger(), nullable=False),
        sa.Column("latency_reports", sa.Integer(), nullable=False),
        sa.Column("latency_log_sum", sa.Float(), nullable=False),
        sa.Column("fidelity_reports", sa.Integer(), nullable=False),
        sa.Column("fidelity_sum", sa.Float(), nullable=False),
        sa.Column("degraded", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["device_id"], [f"{SCHEMA}.devices.id"], name="fk_health_device_id_devices", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["rollout_id"],
            [f"{SCHEMA}.rollouts.id"],
            name="fk_health_rollout_id_rollouts",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("rollout_id", "device_id", "arm", name="pk_health"),
        schema=SCHEMA,
    )


def _rollout_stages() -> None:
    op.create_table(
        "rollout_stages",
        sa.Column("rollout_id", sa.Text(), nullable=False),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("basis_points", sa.Integer(), nullable=False),
        sa.Column("entered", sa.Float()),
        sa.Column("entered_at", MOMENT),
        sa.Column("left", sa.Float()),
        sa.Column("targeted", JSONB(), nullable=False),
        sa.Column("fleet", JSONB(), nullable=False),
        sa.ForeignKeyConstraint(
            ["rollout_id"],
            [f"{SCHEMA}.rollouts.id"],
            name="fk_rollout_stages_rollout_id_rollouts",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("rollout_id", "index", name="pk_rollout_stages"),
        schema=SCHEMA,
    )
