"""Curation: plans that are applied, runs that build on another, evaluation sets, embeddings of training sets."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010_curation_apply"
down_revision = "0009_drift_evidence"
branch_labels = None
depends_on = None

SCHEMA = "curation"


def _run_columns() -> list[sa.Column[object]]:
    return [
        sa.Column("recall", sa.Double(), nullable=False, server_default="1"),
        sa.Column("digest", sa.Text(), nullable=False, server_default=""),
        sa.Column("base_run", sa.Text(), nullable=True),
        sa.Column("inserted", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("known", sa.Text(), nullable=False, server_default=""),
        sa.Column("min_samples", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("first_hour", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("applied", sa.Double(), nullable=True),
        sa.Column("dropped", sa.Integer(), nullable=False, server_default="0"),
    ]


def upgrade() -> None:
    for column in _run_columns():
        op.add_column("runs", column, schema=SCHEMA)
    op.add_column("segments", sa.Column("dropped_by", sa.Text(), nullable=True), schema=SCHEMA)
    op.add_column("segments", sa.Column("digest", sa.Text(), nullable=False, server_default=""), schema=SCHEMA)
    op.drop_index("ix_segments_embedding_id_hour", "segments", schema=SCHEMA)
    op.create_index(
        "ix_segments_embedding_id_hour_segment_id", "segments", ["embedding_id", "hour", "segment_id"], schema=SCHEMA
    )
    op.add_column("training_sets", sa.Column("embedding_id", sa.Text(), nullable=True), schema=SCHEMA)
    _evaluation_sets()


def downgrade() -> None:
    op.drop_table("evaluation_sets", schema=SCHEMA)
    op.drop_column("training_sets", "embedding_id", schema=SCHEMA)
    op.drop_index("ix_segments_embedding_id_hour_segment_id", "segments", schema=SCHEMA)
    op.create_index("ix_segments_embedding_id_hour", "segments", ["embedding_id", "hour"], schema=SCHEMA)
    op.drop_column("segments", "digest", schema=SCHEMA)
    op.drop_column("segments", "dropped_by", schema=SCHEMA)
    for column in _run_columns():
        op.drop_column("runs", column.name, schema=SCHEMA)


def _evaluation_sets() -> None:
    op.create_table(
        "evaluation_sets",
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("embedding_id", sa.Text(), nullable=True),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("vectors", sa.Integer(), nullable=False),
        sa.Column("matrix", sa.LargeBinary(), nullable=False),
        sa.Column("clips", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("revision", name="pk_evaluation_sets"),
        schema=SCHEMA,
    )
    op.create_index("ix_evaluation_sets_ordinal", "evaluation_sets", ["ordinal"], unique=True, schema=SCHEMA)
