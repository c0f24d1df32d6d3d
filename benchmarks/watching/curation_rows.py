"""Clustering runs; the newest with its clusters, members, training sets and coverage."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from benchmarks.watching.copying import Row
from benchmarks.watching.scale import DAY_S, EMBEDDINGS, Scale

RUNS, RUN_COLUMNS = (
    "curation.runs",
    (
        "id", "state", "requested", "created", "embedding_id", "segments", "distinct_segments", "clusters", "split",
        "noise", "kept", "eps", "eps_source", "guarded", "other_embeddings", "error",
    ),
)  # fmt: skip
CLUSTERS, CLUSTER_COLUMNS = (
    "curation.clusters",
    ("id", "run_id", "label", "members", "centroid", "medoid", "medoid_id", "radius", "score_mean", "cohorts"),
)
MEMBERS, MEMBER_COLUMNS = (
    "curation.members",
    ("cluster_id", "rank", "segment_id", "cohort", "score_mean", "vector", "kept"),
)
SETS, SET_COLUMNS = (
    "curation.training_sets",
    (
        "revision", "parent", "digest", "vectors", "matrix", "videos", "conditions", "eps_cov", "created",
        "embedding_id",
    ),
)  # fmt: skip
COVERAGE, COVERAGE_COLUMNS = (
    "curation.coverage",
    ("cluster_id", "revision", "run_id", "state", "members", "covered", "share", "low", "high", "eps_cov"),
)
PAST_RUNS, TRAINING_SETS, VECTORS, LENGTH = 90, 8, 2_000, 32


def run_id(number: int) -> str:
    """Runs in order; the last one is the newest."""
    return f"run-{number:05d}"


def cluster_id(label: int) -> str:
    """Clusters of the newest run."""
    return f"{run_id(PAST_RUNS - 1)}-{label}"


def runs(scale: Scale) -> Iterator[Row]:
    """One run a day."""
    for number in range(PAST_RUNS):
        at = scale.now - (PAST_RUNS - number) * DAY_S
        segments = 2 * scale.clusters * scale.members
        yield (
            run_id(number), "done", f"{at:.1f}", f"{at + 60:.1f}", EMBEDDINGS[1], segments, segments, scale.clusters, 0,
            segments // 2, segments // 3, 0.3, "chosen", (), 0, "",
        )  # fmt: skip


def clusters(scale: Scale) -> Iterator[Row]:
    """The newest run's clusters."""
    centres = _centres(scale)
    for label in range(scale.clusters):
        vector = centres[label].astype("<f4").tobytes()
        own = {scale.cohorts[(7 * label + one) % len(scale.cohorts)]: scale.members // 3 for one in range(3)}
        yield (
            cluster_id(label), run_id(PAST_RUNS - 1), label, scale.members * (1 + 300 // (label + 3)), vector, vector,
            f"s-{label}-0", 0.4, 2.5, json.dumps(own),
        )  # fmt: skip


def members(scale: Scale) -> Iterator[Row]:
    """The hardest members of each cluster."""
    dice, centres = scale.dice("members"), _centres(scale)
    for label in range(scale.clusters):
        vectors = (centres[label] + dice.normal(0, 0.1, (scale.members, LENGTH))).astype("<f4")
        for rank in range(scale.members):
            cohort = scale.cohorts[(7 * label + rank % 3) % len(scale.cohorts)]
            yield (
                cluster_id(label),
                rank,
                f"s-{label}-{rank}",
                cohort,
                4.0 - rank / 100,
                vectors[rank].tobytes(),
                rank < 9,
            )


def training_sets(scale: Scale) -> Iterator[Row]:
    """A chain of training sets, each the parent of the next."""
    dice = scale.dice("training")
    for number in range(TRAINING_SETS):
        matrix = dice.normal(0, 1, (VECTORS, LENGTH)).astype("<f4").tobytes()
        videos = [f"clip-{number}-{place // 4}" for place in range(VECTORS)]
        conditions = [f"gain0.{place % 4}-noise8" for place in range(VECTORS)]
        yield (
            f"m{number}", f"m{number - 1}" if number else None, scale.name("set", number, 64), VECTORS, matrix, videos,
            conditions, 0.4, f"{scale.now - (TRAINING_SETS - number) * 9 * DAY_S:.1f}", EMBEDDINGS[1],
        )  # fmt: skip


def coverage(scale: Scale) -> Iterator[Row]:
    """Coverage of every cluster by the two newest training sets."""
    for number in (TRAINING_SETS - 2, TRAINING_SETS - 1):
        for label in range(scale.clusters):
            state, share = (("covered", 0.97), ("partial", 0.6), ("uncovered", 0.05))[(label + number) % 3]
            yield (
                cluster_id(label), f"m{number}", run_id(PAST_RUNS - 1), state, scale.members,
                int(share * scale.members), share, max(0.0, share - 0.06), min(1.0, share + 0.03), 0.4,
            )  # fmt: skip


def _centres(scale: Scale) -> np.ndarray:
    return scale.dice("centres").normal(0, 1, (scale.clusters, LENGTH))
