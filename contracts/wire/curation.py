"""Curation: clusters of hard examples and how well the training set covers them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from contracts.wire.base import Answer, Identifier, Message, Share
from contracts.wire.limits import LIMITS

Coordinate = Annotated[float, Field(ge=-1e6, le=1e6)]
"""Distances of such numbers are finite in 32 bits."""
Vector = Annotated[tuple[Coordinate, ...], Field(min_length=32, max_length=32)]


class CoverageState(StrEnum):
    """How much of a cluster the training set reaches."""

    COVERED = "covered"
    PARTIAL = "partial"
    UNCOVERED = "uncovered"


class Coverage(Answer):
    """Share of members within `eps_cov` of a training vector, with a 95 % Wilson interval."""

    state: CoverageState
    share: Share
    low: Share
    high: Share
    members: int
    covered: int
    eps_cov: float
    revision: str = ""


class Cluster(Answer):
    """Hard segments that look alike to the quality net."""

    id: str
    label: int
    members: int
    centroid: Vector
    medoid: Vector
    radius: float
    score_mean: float
    cohorts: dict[str, int] = Field(default_factory=dict)
    coverage: Coverage | None = None
    member_vectors: tuple[Vector, ...] = ()
    """Up to 200 members, hardest first; filled on the detail route only."""


class ClusterList(Answer):
    """A page of clusters of the latest run."""

    items: tuple[Cluster, ...]
    run_id: str = ""
    next_cursor: str | None = None


class ClusterPoint(Answer):
    """A cluster as a picture needs it; `state` is of its coverage, null where it was not measured."""

    id: str
    label: int
    members: int
    centroid: Vector
    state: CoverageState | None = None


class ClusterMap(Answer):
    """Clusters of the latest run, by label; `complete` is False where more exist than are told."""

    items: tuple[ClusterPoint, ...] = ()
    run_id: str = ""
    complete: bool = True


class CurationRun(Answer):
    """One clustering of the last days."""

    id: str
    segments: int
    clusters: int
    noise: int
    eps: float
    covered_share: Share
    created: float


class TrainingVector(Message):
    """Where one training clip under one degradation lands in feature space.

    `clip` names the scene where a video has several (default: the video itself).
    """

    video: Annotated[str, StringConstraints(max_length=128)]
    condition: Annotated[str, StringConstraints(max_length=64)]
    vector: Vector
    clip: Annotated[str, StringConstraints(max_length=128)] | None = None


class TrainingVectorBatch(Message):
    """The training set of one model, as vectors. `revision` names it and makes the post idempotent.

    `embedding_id` tells whose vectors they are: they are compared with segments of that embedding only. Without it
    they are taken for those of any.
    """

    revision: Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9._-]{1,64}$")]
    parent: str | None = None
    embedding_id: Identifier | None = None
    vectors: Annotated[tuple[TrainingVector, ...], Field(min_length=1, max_length=LIMITS.training_vectors)]


class EvaluationVector(Message):
    """Where one held-out clip lands in feature space."""

    clip: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    vector: Vector


class EvaluationVectorBatch(Message):
    """What models are judged by, as vectors: no training set may hold them. `revision` makes the post idempotent."""

    revision: Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9._-]{1,64}$")]
    embedding_id: Identifier | None = None
    vectors: Annotated[tuple[EvaluationVector, ...], Field(min_length=1, max_length=LIMITS.training_vectors)]


class ApplyRequest(Message):
    """Apply the plan of a run: `digest` is the one that was read with it."""

    digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
