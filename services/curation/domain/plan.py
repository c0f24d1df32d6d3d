"""From segments to clusters in one pure step: collapse, choose eps, DBSCAN, cap, keep.

A plan changes nothing by itself: it says which clusters exist and which members would be kept.
Invariant: equal segments in equal order give an equal plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from services.curation.domain.collapse import Collapsed, collapse
from services.curation.domain.dbscan import DIRECT_POINTS, Earlier, Labelled, Scan, cluster_points
from services.curation.domain.epsilon import Epsilon, choose_epsilon
from services.curation.domain.known import Known, extended, id_array
from services.curation.domain.scan.clusters import grow_clusters
from services.curation.domain.shape import Shape, cap_diameter, members_by_label, shape_of
from services.curation.domain.survivors import choose_survivors


class PlanSettings(Protocol):
    """What shapes a plan; see `services.curation.limits.CurationSettings`."""

    @property
    def eps(self) -> float | None: ...
    @property
    def eps_floor(self) -> float: ...
    @property
    def eps_ceiling(self) -> float: ...
    @property
    def min_samples(self) -> int: ...
    @property
    def radius_cap(self) -> float: ...
    @property
    def keep_hardest(self) -> int: ...
    @property
    def most_dropped(self) -> float: ...


@dataclass(frozen=True)
class Segments:
    """Hard segments as columns, rising by id: ids, vectors (n x 32), expected loss in dB, device class, cohort, and
    the model's version (empty: not told).
    """

    ids: Sequence[str]
    vectors: NDArray[np.float32]
    scores: NDArray[np.float64]
    sources: Sequence[str]
    cohorts: Sequence[str]
    versions: Sequence[str] = ()


@dataclass(frozen=True)
class PlannedCluster:
    """A cluster: positions of its members in the segments, its shape (medoid is such a position), its
    cohorts.
    """

    label: int
    members: NDArray[np.int64]
    shape: Shape
    score_mean: float
    cohorts: Mapping[str, int]


@dataclass(frozen=True)
class Plan:
    """All clusters of a run. `kept` marks the segments that stay; `guarded` the sources the guard
    protected; `recall` is the audited share of near pairs that the clusters honour before the cap.

    inserted: segments added to what was known (None: all were clustered). known: what the next run may build on.
    """

    clusters: tuple[PlannedCluster, ...]
    epsilon: Epsilon
    distinct: int
    noise: int
    split: int
    kept: NDArray[np.bool_]
    guarded: tuple[str, ...]
    recall: float = 1.0
    inserted: int | None = None
    known: Known | None = None


@dataclass(frozen=True)
class Means:
    """How points are clustered: up to `direct_points` by scikit-learn, above by `scan`."""

    direct_points: int = DIRECT_POINTS
    scan: Scan = grow_clusters


def make_plan(
    segments: Segments,
    settings: PlanSettings,
    most_points: int,
    epsilon_sample: int,
    known: Known | None = None,
    means: Means | None = None,
) -> Plan:
    """Cluster the segments, or add them to what is `known` where that is possible.

    Raises NotClustered when they do not fit or the labels fail their audit.
    """
    means = means or Means()
    more = extended(known, segments.ids, segments.vectors) if known else None
    if known is not None and more is not None:
        collapsed, epsilon = more.collapsed, Epsilon(known.eps, "inherited")
        earlier = Earlier(more.fresh, known.grown)
    else:
        collapsed, earlier = collapse(segments.vectors), None
        epsilon = _epsilon(collapsed, settings, epsilon_sample)
    found = cluster_points(
        collapsed, epsilon.value, settings.min_samples, most_points, means.direct_points, means.scan, earlier
    )
    labels = cap_diameter(segments.vectors, found.labels, settings.radius_cap * epsilon.value)
    clusters = tuple(_cluster(label, members, segments) for label, members in enumerate(members_by_label(labels)))
    survivors = choose_survivors(
        labels,
        [cluster.shape.medoid for cluster in clusters],
        segments.scores,
        segments.ids,
        (segments.sources, segments.versions),
        settings.keep_hardest,
        settings.most_dropped,
    )
    return Plan(
        clusters=clusters,
        epsilon=epsilon,
        distinct=len(collapsed.rows),
        noise=int(np.count_nonzero(labels < 0)),
        split=len(clusters) - (int(found.labels.max(initial=-1)) + 1),
        kept=survivors.kept,
        guarded=survivors.guarded,
        recall=found.recall,
        inserted=more.inserted if more else None,
        known=_known(segments, collapsed, epsilon, found),
    )


def _known(segments: Segments, collapsed: Collapsed, epsilon: Epsilon, found: Labelled) -> Known | None:
    if found.grown is None:
        return None
    return Known(id_array(segments.ids), collapsed.index.astype(np.int32), epsilon.value, found.grown)


def _epsilon(collapsed: Collapsed, settings: PlanSettings, sample: int) -> Epsilon:
    if settings.eps is not None:
        return Epsilon(settings.eps, "settings")
    return choose_epsilon(collapsed, settings.min_samples, settings.eps_floor, settings.eps_ceiling, sample)


def _cluster(label: int, members: NDArray[np.int64], segments: Segments) -> PlannedCluster:
    shape = shape_of(segments.vectors[members])
    counts = Counter(segments.cohorts[position] for position in members.tolist())
    return PlannedCluster(
        label=label,
        members=members,
        shape=Shape(shape.centroid, int(members[shape.medoid]), shape.radius),
        score_mean=float(segments.scores[members].mean()),
        cohorts=dict(sorted(counts.items())),
    )
