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
from services.curation.domain.dbscan import cluster_points
from services.curation.domain.epsilon import Epsilon, choose_epsilon
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
    """Hard segments as columns: ids, vectors (n x 32), expected loss in dB, device class and cohort."""

    ids: Sequence[str]
    vectors: NDArray[np.float32]
    scores: NDArray[np.float64]
    sources: Sequence[str]
    cohorts: Sequence[str]


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
    """

    clusters: tuple[PlannedCluster, ...]
    epsilon: Epsilon
    distinct: int
    noise: int
    split: int
    kept: NDArray[np.bool_]
    guarded: tuple[str, ...]
    recall: float = 1.0


def make_plan(segments: Segments, settings: PlanSettings, most_points: int, epsilon_sample: int) -> Plan:
    """Cluster the segments. Raises NotClustered when they do not fit or the labels fail their audit."""
    collapsed = collapse(segments.vectors)
    epsilon = _epsilon(collapsed, settings, epsilon_sample)
    found = cluster_points(collapsed, epsilon.value, settings.min_samples, most_points)
    raw = found.labels
    labels = cap_diameter(segments.vectors, raw, settings.radius_cap * epsilon.value)
    clusters = tuple(_cluster(label, members, segments) for label, members in enumerate(members_by_label(labels)))
    survivors = choose_survivors(
        labels,
        [cluster.shape.medoid for cluster in clusters],
        segments.scores,
        segments.ids,
        segments.sources,
        settings.keep_hardest,
        settings.most_dropped,
    )
    return Plan(
        clusters=clusters,
        epsilon=epsilon,
        distinct=len(collapsed.rows),
        noise=int(np.count_nonzero(labels < 0)),
        split=len(clusters) - (int(raw.max(initial=-1)) + 1),
        kept=survivors.kept,
        guarded=survivors.guarded,
        recall=found.recall,
    )


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
