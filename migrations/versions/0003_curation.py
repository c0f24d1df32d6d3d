"""Tables of the curation service: segments, runs, clusters, members, training sets, coverage."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0003_curation"
down_revision = "0002_telemetry"
branch_labels = None
depends_on = None

SCHEMA = "curation"
TABLES = ("segments", "rejected", "runs", "clusters", "members", "training_sets", "coverage")


def upgrade() -> None:
    op.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    _segments()
    _rejected()
    _runs()
    _clusters()
    _members()
    _training_sets()
    _coverage()


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table, schema=SCHEMA)
    op.execute(f"DROP SCHEMA {SCHEMA}")


def _text(name: str, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _whole(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=False)


def _number(name: str, nullable: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=nullable)


def _bytes(name: str) -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary(), nullable=False)


def _texts(name: str) -> sa.Column[list[str]]:
    return sa.Column(name, sa.ARRAY(sa.Text()), nullable=False)


def _cluster_key(table: str) -> sa.ForeignKeyConstraint:
    name = f"fk_{table}_cluster_id_clusters"
    return sa.ForeignKeyConstraint(["cluster_id"], [f"{SCHEMA}.clusters.id"], name=name, ondelete="CASCADE")


def _segments() -> None:
    op.create_table(
        "segments",
        _text("segment_id"),
        _text("embedding_id"),
        _text("model_version"),
        _whole("hour"),
        _text("device_class"),
        _text("cohort"),
        _text("network"),
        _number("score_mean"),
        _number("score_max"),
        _number("motion"),
        _bytes("vector"),
        sa.PrimaryKeyConstraint("segment_id", name="pk_segments"),
        schema=SCHEMA,
    )
    op.create_index("ix_segments_embedding_id_hour", "segments", ["embedding_id", "hour"], schema=SCHEMA)
    op.create_index("ix_segments_hour", "segments", ["hour"], schema=SCHEMA)


def _rejected() -> None:
    op.create_table(
        "rejected",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        _text("digest"),
        _text("reason"),
        _text("detail"),
        _number("at"),
        sa.PrimaryKeyConstraint("id", name="pk_rejected"),
        sa.UniqueConstraint("digest", "reason", name="uq_rejected_digest_reason"),
        schema=SCHEMA,
    )


def _runs() -> None:
    op.create_table(
        "runs",
        _text("id"),
        _text("state"),
        _number("requested"),
        _number("created", nullable=True),
        _text("embedding_id", nullable=True),
        _whole("segments"),
        _whole("distinct_segments"),
        _whole("clusters"),
        _whole("split"),
        _whole("noise"),
        _whole("kept"),
        _number("eps"),
        _text("eps_source"),
        _texts("guarded"),
        _whole("other_embeddings"),
        _text("error"),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        schema=SCHEMA,
    )
    op.create_index("ix_runs_state_created", "runs", ["state", "created"], schema=SCHEMA)


def _clusters() -> None:
    op.create_table(
        "clusters",
        _text("id"),
        _text("run_id"),
        _whole("label"),
        _whole("members"),
        _bytes("centroid"),
        _bytes("medoid"),
        _text("medoid_id"),
        _number("radius"),
        _number("score_mean"),
        sa.Column("cohorts", JSONB(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_clusters"),
        sa.UniqueConstraint("run_id", "label", name="uq_clusters_run_id_label"),
        sa.ForeignKeyConstraint(["run_id"], [f"{SCHEMA}.runs.id"], name="fk_clusters_run_id_runs", ondelete="CASCADE"),
        schema=SCHEMA,
    )


def _members() -> None:
    op.create_table(
        "members",
        _text("cluster_id"),
        _whole("rank"),
        _text("segment_id"),
        _text("cohort"),
        _number("score_mean"),
        _bytes("vector"),
        sa.Column("kept", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("cluster_id", "rank", name="pk_members"),
        _cluster_key("members"),
        schema=SCHEMA,
    )


def _training_sets() -> None:
    op.create_table(
        "training_sets",
        _text("revision"),
        sa.Column("ordinal", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        _text("parent", nullable=True),
        _text("digest"),
        _whole("vectors"),
        _bytes("matrix"),
        _texts("videos"),
        _texts("conditions"),
        _number("eps_cov"),
        _number("created"),
        sa.PrimaryKeyConstraint("revision", name="pk_training_sets"),
        schema=SCHEMA,
    )
    op.create_index("ix_training_sets_ordinal", "training_sets", ["ordinal"], unique=True, schema=SCHEMA)


def _coverage() -> None:
    op.create_table(
        "coverage",
        _text("cluster_id"),
        _text("revision"),
        _text("run_id"),
        _text("state"),
        _whole("members"),
        _whole("covered"),
        _number("share"),
        _number("low"),
        _number("high"),
        _number("eps_cov"),
        sa.PrimaryKeyConstraint("cluster_id", "revision", name="pk_coverage"),
        _cluster_key("coverage"),
        schema=SCHEMA,
    )
    op.create_index("ix_coverage_run_id_revision", "coverage", ["run_id", "revision"], schema=SCHEMA)
