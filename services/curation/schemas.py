"""Answers of the curation API beyond `contracts.wire.curation`."""

from pydantic import Field

from contracts.wire.base import Answer, Share
from contracts.wire.curation import Cluster, CurationRun, Vector


class RunDetail(CurationRun):
    """A run with its state (`requested`, `done`, `failed`) and everything that explains it.

    `created` is 0 while the run waits. `guarded` names device classes that the wipe-out guard protected,
    `split` is the number of clusters that the diameter cap added, `other_embeddings` counts segments left
    out.
    """

    state: str
    embedding_id: str | None = None
    distinct_segments: int = 0
    split: int = 0
    kept: int = 0
    eps_source: str = ""
    guarded: tuple[str, ...] = ()
    other_embeddings: int = 0
    error: str = ""
    recall: Share = 1.0
    """Audited share of near pairs that the clusters honour."""
    digest: str = ""
    """Of the plan; whoever applies it has to name it."""
    base_run: str | None = None
    """The full run that this one added to; null: this one clustered everything."""
    inserted: int = 0
    """Segments that were added to what the run before left."""
    applied: float | None = None
    dropped: int = 0
    """Segments that the applied plan let go."""


class ClusterMember(Answer):
    """A member of a cluster; `kept` when it stays as a representative."""

    segment_id: str
    cohort: str
    score_mean: float
    kept: bool


class ClusterDetail(Cluster):
    """A cluster with its members (up to 200, hardest first) and the id of its medoid."""

    medoid_id: str
    listed: tuple[ClusterMember, ...] = ()


class StandIn(Answer):
    """A training clip under one condition: of `members` it is the nearest of all, `reached` of them within `eps_cov`.

    `nearest` is the smallest of those distances; `revision` the training set that brought it.
    """

    revision: str
    video: str
    condition: str
    members: int
    reached: int
    nearest: float


class StandInReport(Answer):
    """What stands in for a cluster, most members first; `members` are the hardest ones, which were asked about.

    `revision` is empty while there is no training set; `further` counts clips that are not listed.
    """

    cluster_id: str
    revision: str = ""
    eps_cov: float = 0.0
    members: int = 0
    items: tuple[StandIn, ...] = ()
    further: int = 0


class RevisionCoverage(Answer):
    """Coverage of all clusters of a run by one training set and its parents."""

    revision: str
    parent: str | None = None
    vectors: int = 0
    eps_cov: float = 0.0
    members: int = 0
    covered: int = 0
    share: Share = 0.0
    low: Share = 0.0
    high: Share = 1.0
    covered_clusters: int = 0
    partial_clusters: int = 0
    uncovered_clusters: int = 0


class CoverageReport(Answer):
    """Coverage of the newest run's clusters before and after the newest training set.

    `created` is when the run read its segments (null: no run yet); `clusters` and `uncovered` are those of
    `after`. Without any training set every cluster is uncovered.
    """

    run_id: str = ""
    created: float | None = None
    segments: int = 0
    clusters: int = 0
    uncovered: int = 0
    before: RevisionCoverage | None = None
    after: RevisionCoverage | None = None
    other_training_sets: int = 0
    """Training sets of other embeddings, which these clusters are not compared with."""


class TrainingSetAnswer(Answer):
    """A training set is stored; `duplicate` when it had been before.

    `left_out` counts vectors by the reason they were not stored, `near_evaluation` those that lie near an evaluation
    vector of another clip (those of the same clip are refused).
    """

    revision: str
    vectors: int
    eps_cov: float
    duplicate: bool
    left_out: dict[str, int] = Field(default_factory=dict)
    near_evaluation: int = 0


class EvaluationSetAnswer(Answer):
    """An evaluation set is stored; `duplicate` when it had been before."""

    revision: str
    vectors: int
    duplicate: bool


class SegmentInfo(Answer):
    """A hard segment as curation knows it."""

    segment_id: str
    embedding_id: str
    model_version: str
    hour: int
    cohort: str
    network: str
    score_mean: float
    score_max: float
    motion: float
    vector: Vector
    dropped: bool = False
    """An applied plan let it go; it leaves with the window."""
