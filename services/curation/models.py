"""Tables of the schema `curation`. Times are seconds of the platform's clock; vectors are little-endian
float32.
"""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from services.kit.database import Base

SCHEMA = "curation"


class Segment(Base):
    """A hard segment, as its 32-d vector and coarse metadata.

    `digest` is of the upload's body (empty: stored before that was kept). `dropped_by` is the run whose applied plan
    let the segment go; it still counts in the window, and leaves the table with it.
    """

    __tablename__ = "segments"
    __table_args__ = (
        Index("ix_segments_embedding_id_hour_segment_id", "embedding_id", "hour", "segment_id"),
        Index("ix_segments_hour", "hour"),
        {"schema": SCHEMA},
    )

    segment_id: Mapped[str] = mapped_column(Text, primary_key=True)
    embedding_id: Mapped[str] = mapped_column(Text)
    model_version: Mapped[str] = mapped_column(Text)
    hour: Mapped[int] = mapped_column(Integer)
    device_class: Mapped[str] = mapped_column(Text)
    cohort: Mapped[str] = mapped_column(Text)
    network: Mapped[str] = mapped_column(Text)
    score_mean: Mapped[float] = mapped_column(Double)
    score_max: Mapped[float] = mapped_column(Double)
    motion: Mapped[float] = mapped_column(Double)
    vector: Mapped[bytes] = mapped_column(LargeBinary)
    digest: Mapped[str] = mapped_column(Text, server_default="")
    dropped_by: Mapped[str | None] = mapped_column(Text)


class RejectedSegment(Base):
    """A segment that was counted apart, and why."""

    __tablename__ = "rejected"
    __table_args__ = (UniqueConstraint("digest", "reason"), {"schema": SCHEMA})

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    digest: Mapped[str] = mapped_column(Text)
    reason: Mapped[str] = mapped_column(Text)
    detail: Mapped[str] = mapped_column(Text)
    at: Mapped[float] = mapped_column(Double)


class Run(Base):
    """One clustering. `state`: requested, done, failed. `created` is when the segments were read.

    digest: of which segments it would keep. base_run: the full run that this one and those between added to, `inserted`
    segments by this one. known: SHA-256 of what it left for the next (empty: nothing). first_hour: of its window.
    applied: when its plan was applied, which let `dropped` segments go.
    """

    __tablename__ = "runs"
    __table_args__ = (Index("ix_runs_state_created", "state", "created"), {"schema": SCHEMA})

    id: Mapped[str] = mapped_column(Text, primary_key=True)
    state: Mapped[str] = mapped_column(Text)
    requested: Mapped[float] = mapped_column(Double)
    created: Mapped[float | None] = mapped_column(Double)
    embedding_id: Mapped[str | None] = mapped_column(Text)
    segments: Mapped[int] = mapped_column(Integer)
    distinct_segments: Mapped[int] = mapped_column(Integer)
    clusters: Mapped[int] = mapped_column(Integer)
    split: Mapped[int] = mapped_column(Integer)
    noise: Mapped[int] = mapped_column(Integer)
    kept: Mapped[int] = mapped_column(Integer)
    eps: Mapped[float] = mapped_column(Double)
    eps_source: Mapped[str] = mapped_column(Text)
    guarded: Mapped[list[str]] = mapped_column(ARRAY(Text))
    other_embeddings: Mapped[int] = mapped_column(Integer)
    error: Mapped[str] = mapped_column(Text)
    recall: Mapped[float] = mapped_column(Double, default=1.0, server_default="1")
    digest: Mapped[str] = mapped_column(Text, default="", server_default="")
    base_run: Mapped[str | None] = mapped_column(Text)
    inserted: Mapped[int] = mapped_column(Integer, default=0, server_default="0")
    known: Mapped[str] = mapped_column(Text, default="", server_default="")
    min_samples: Mapped[int] = mapped_column(Integer, default=0, server_default="0")
    first_hour: Mapped[int] = mapped_column(Integer, default=0, server_default="0")
    applied: Mapped[float | None] = mapped_column(Double)
    dropped: Mapped[int] = mapped_column(Integer, default=0, server_default="0")


class ClusterRow(Base):
    """A cluster of a run."""

    __tablename__ = "clusters"
    __table_args__ = (UniqueConstraint("run_id", "label"), {"schema": SCHEMA})

    id: Mapped[str] = mapped_column(Text, primary_key=True)
    run_id: Mapped[str] = mapped_column(ForeignKey(f"{SCHEMA}.runs.id", ondelete="CASCADE"))
    label: Mapped[int] = mapped_column(Integer)
    members: Mapped[int] = mapped_column(Integer)
    centroid: Mapped[bytes] = mapped_column(LargeBinary)
    medoid: Mapped[bytes] = mapped_column(LargeBinary)
    medoid_id: Mapped[str] = mapped_column(Text)
    radius: Mapped[float] = mapped_column(Double)
    score_mean: Mapped[float] = mapped_column(Double)
    cohorts: Mapped[dict[str, int]] = mapped_column(JSONB)


class Member(Base):
    """A segment's place in a run, with its vector, so that a run outlives the segments. `kept`: it
    survives.
    """

    __tablename__ = "members"
    __table_args__ = ({"schema": SCHEMA},)

    cluster_id: Mapped[str] = mapped_column(ForeignKey(f"{SCHEMA}.clusters.id", ondelete="CASCADE"), primary_key=True)
    rank: Mapped[int] = mapped_column(Integer, primary_key=True)
    segment_id: Mapped[str] = mapped_column(Text)
    cohort: Mapped[str] = mapped_column(Text)
    score_mean: Mapped[float] = mapped_column(Double)
    vector: Mapped[bytes] = mapped_column(LargeBinary)
    kept: Mapped[bool] = mapped_column(Boolean)


class TrainingSet(Base):
    """Vectors that one training set added. `matrix` is n x 32; videos and conditions go by row."""

    __tablename__ = "training_sets"
    __table_args__ = (Index("ix_training_sets_ordinal", "ordinal", unique=True), {"schema": SCHEMA})

    revision: Mapped[str] = mapped_column(Text, primary_key=True)
    ordinal: Mapped[int] = mapped_column(BigInteger, Identity(always=True))
    parent: Mapped[str | None] = mapped_column(Text)
    digest: Mapped[str] = mapped_column(Text)
    vectors: Mapped[int] = mapped_column(Integer)
    matrix: Mapped[bytes] = mapped_column(LargeBinary)
    videos: Mapped[list[str]] = mapped_column(ARRAY(Text))
    conditions: Mapped[list[str]] = mapped_column(ARRAY(Text))
    eps_cov: Mapped[float] = mapped_column(Double)
    created: Mapped[float] = mapped_column(Double)
    embedding_id: Mapped[str | None] = mapped_column(Text)


class EvaluationSet(Base):
    """Where held-out clips lie in feature space. `matrix` is n x 32; clips go by row."""

    __tablename__ = "evaluation_sets"
    __table_args__ = (Index("ix_evaluation_sets_ordinal", "ordinal", unique=True), {"schema": SCHEMA})

    revision: Mapped[str] = mapped_column(Text, primary_key=True)
    ordinal: Mapped[int] = mapped_column(BigInteger, Identity(always=True))
    embedding_id: Mapped[str | None] = mapped_column(Text)
    digest: Mapped[str] = mapped_column(Text)
    vectors: Mapped[int] = mapped_column(Integer)
    matrix: Mapped[bytes] = mapped_column(LargeBinary)
    clips: Mapped[list[str]] = mapped_column(ARRAY(Text))
    created: Mapped[float] = mapped_column(Double)


class CoverageRow(Base):
    """Coverage of a cluster by a training set and its parents."""

    __tablename__ = "coverage"
    __table_args__ = (Index("ix_coverage_run_id_revision", "run_id", "revision"), {"schema": SCHEMA})

    cluster_id: Mapped[str] = mapped_column(ForeignKey(f"{SCHEMA}.clusters.id", ondelete="CASCADE"), primary_key=True)
    revision: Mapped[str] = mapped_column(Text, primary_key=True)
    run_id: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(Text)
    members: Mapped[int] = mapped_column(Integer)
    covered: Mapped[int] = mapped_column(Integer)
    share: Mapped[float] = mapped_column(Double)
    low: Mapped[float] = mapped_column(Double)
    high: Mapped[float] = mapped_column(Double)
    eps_cov: Mapped[float] = mapped_column(Double)
