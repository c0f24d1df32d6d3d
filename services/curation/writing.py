"""A plan into the tables of its run, many rows a statement."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
from psycopg import Connection
from sqlalchemy import delete, select, tuple_
from sqlalchemy.orm import Session

from services.curation import vectors
from services.curation.domain.digest import plan_digest
from services.curation.domain.plan import Plan, PlannedCluster, Segments
from services.curation.domain.survivors import hardest_first
from services.curation.limits import LIMITS
from services.curation.models import SCHEMA, ClusterRow, Member, Run

Values = tuple[str | int | float | bool | bytes, ...]

CLUSTER = ("id", "run_id", "label", "members", "centroid", "medoid", "medoid_id", "radius", "score_mean", "cohorts")
MEMBER = ("cluster_id", "rank", "segment_id", "cohort", "score_mean", "vector", "kept")


def write_plan(session: Session, run: Run, segments: Segments, plan: Plan) -> None:
    """Write clusters, members and what the run's row says of them."""
    run.distinct_segments, run.clusters, run.split = plan.distinct, len(plan.clusters), plan.split
    run.noise, run.kept, run.recall = plan.noise, int(plan.kept.sum()), plan.recall
    run.eps, run.eps_source, run.guarded = plan.epsilon.value, plan.epsilon.source, list(plan.guarded)
    run.inserted = plan.inserted or 0
    run.digest = plan_digest(
        (segments.ids[position], cluster.label, bool(plan.kept[position]))
        for cluster in plan.clusters
        for position in cluster.members.tolist()
    )
    session.flush()
    _copy(session, "clusters", CLUSTER, (_cluster(run.id, cluster, segments) for cluster in plan.clusters))
    rows = (row for cluster in plan.clusters for row in _members(run.id, cluster, segments, plan))
    _copy(session, "members", MEMBER, rows)


def forget_run(session: Session, run_id: str) -> None:
    """Remove a run with everything that belongs to it, so many rows a statement."""
    some = select(Member.cluster_id, Member.rank).join(ClusterRow, ClusterRow.id == Member.cluster_id)
    some = some.where(ClusterRow.run_id == run_id).limit(LIMITS.rows)
    gone = delete(Member).where(tuple_(Member.cluster_id, Member.rank).in_(some)).returning(Member.rank)
    while len(session.execute(gone).all()) >= LIMITS.rows:
        pass
    session.execute(delete(Run).where(Run.id == run_id))


def _cluster(run_id: str, cluster: PlannedCluster, segments: Segments) -> Values:
    medoid = cluster.shape.medoid
    return (
        f"{run_id}-{cluster.label}",
        run_id,
        cluster.label,
        len(cluster.members),
        vectors.to_bytes(cluster.shape.centroid),
        vectors.to_bytes(segments.vectors[medoid]),
        segments.ids[medoid],
        cluster.shape.radius,
        cluster.score_mean,
        json.dumps(dict(cluster.cohorts)),
    )


def _members(run_id: str, cluster: PlannedCluster, segments: Segments, plan: Plan) -> Iterator[Values]:
    """Members of a cluster, hardest first."""
    ids = [segments.ids[position] for position in cluster.members.tolist()]
    order = np.array(hardest_first(segments.scores[cluster.members], ids), dtype=np.int64)
    for rank, position in enumerate(cluster.members[order].tolist()):
        yield (
            f"{run_id}-{cluster.label}",
            rank,
            segments.ids[position],
            segments.cohorts[position],
            float(segments.scores[position]),
            vectors.to_bytes(segments.vectors[position]),
            bool(plan.kept[position]),
        )


def _copy(session: Session, table: str, columns: Sequence[str], rows: Iterable[Values]) -> None:
    """COPY rows into a table, at most `LIMITS.rows` a statement."""
    statement = f"COPY {SCHEMA}.{table} ({', '.join(columns)}) FROM STDIN"
    left = iter(rows)
    driver = session.connection().connection.driver_connection
    assert isinstance(driver, Connection)  # the platform's only dialect
    with driver.cursor() as cursor:
        while part := list(islice(left, LIMITS.rows)):
            with cursor.copy(statement) as copy:
                for row in part:
                    copy.write_row(row)
