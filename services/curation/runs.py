"""Runs: ask for a clustering, do it, keep the last ones.

Asking is idempotent: a run that waits answers everyone who asks. Doing reads the window, plans in memory
and writes everything in one transaction, so a run is either done or as if it had never begun.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np
import structlog
from sqlalchemy import delete, func, insert, select
from sqlalchemy.orm import Session

from contracts.clock import hour_of
from services.curation import vectors
from services.curation.domain.dbscan import NotClustered
from services.curation.domain.plan import Plan, PlannedCluster, Segments, make_plan
from services.curation.domain.survivors import hardest_first
from services.curation.limits import LIMITS, CurationSettings
from services.curation.models import ClusterRow, Member, Run, Segment
from services.curation.training import cover_newest

REQUESTED, DONE, FAILED = "requested", "done", "failed"

log = structlog.get_logger(__name__)


def request_run(session: Session, now: float) -> Run:
    """Return the run that waits to be done, a new one where none does."""
    waiting = session.scalar(select(Run).where(Run.state == REQUESTED).order_by(Run.requested).limit(1))
    if waiting is not None:
        return waiting
    run = Run(
        id=secrets.token_hex(8),
        state=REQUESTED,
        requested=now,
        created=None,
        embedding_id=None,
        segments=0,
        distinct_segments=0,
        clusters=0,
        split=0,
        noise=0,
        kept=0,
        eps=0.0,
        eps_source="",
        guarded=[],
        other_embeddings=0,
        error="",
    )
    session.add(run)
    session.flush()
    return run


def run_is_due(session: Session, now: float, settings: CurationSettings) -> bool:
    """Whether the periodic run should happen: segments exist and the last run is a period old."""
    last = session.scalar(select(func.max(Run.requested)))
    if last is not None and now - last < settings.run_every_hours * 3600:
        return False
    return session.scalar(select(Segment.segment_id).limit(1)) is not None


def next_requested(session: Session) -> Run | None:
    """Return, locked, the oldest run that waits."""
    statement = select(Run).where(Run.state == REQUESTED).order_by(Run.requested).limit(1)
    return session.scalar(statement.with_for_update(skip_locked=True))


def do_run(session: Session, run: Run, now: float, settings: CurationSettings) -> None:
    """Cluster the window and write clusters, members and coverage. A window that is too large, or
    labels that fail their audit, fail the run.
    """
    first_hour = hour_of(now) - 24 * settings.window_days
    run.embedding_id = _newest_embedding(session, first_hour)
    rows = _window(session, run.embedding_id, first_hour)
    run.created, run.segments = now, len(rows)
    run.other_embeddings = _count_window(session, first_hour) - len(rows)
    try:
        plan = make_plan(_columns(rows), settings, LIMITS.distinct_points, LIMITS.epsilon_sample)
    except NotClustered as error:
        run.state, run.error = FAILED, str(error)
        return
    log.info("curation_recall", run_id=run.id, recall=plan.recall, distinct=plan.distinct)
    _write(session, run, rows, plan)
    run.state = DONE
    session.flush()
    cover_newest(session, run, settings)
    _forget_old(session)


def latest_done(session: Session) -> Run | None:
    """Return the newest finished run."""
    return session.scalar(select(Run).where(Run.state == DONE).order_by(Run.created.desc()).limit(1))


def _newest_embedding(session: Session, first_hour: int) -> str | None:
    """The embedding of the newest hour; several in that hour: the one of most segments."""
    statement = (
        select(Segment.embedding_id)
        .where(Segment.hour >= first_hour)
        .group_by(Segment.embedding_id, Segment.hour)
        .order_by(Segment.hour.desc(), func.count().desc(), Segment.embedding_id)
        .limit(1)
    )
    return session.scalar(statement)


def _window(session: Session, embedding_id: str | None, first_hour: int) -> Sequence[Segment]:
    """The window's segments in order of id; the newest ones where there are too many."""
    newest = (
        select(Segment)
        .where(Segment.hour >= first_hour, Segment.embedding_id == embedding_id)
        .order_by(Segment.hour.desc(), Segment.segment_id)
        .limit(LIMITS.window_segments)
    )
    return sorted(session.scalars(newest), key=lambda row: row.segment_id)


def _count_window(session: Session, first_hour: int) -> int:
    return session.scalar(select(func.count()).select_from(Segment).where(Segment.hour >= first_hour)) or 0


def _columns(rows: Sequence[Segment]) -> Segments:
    return Segments(
        ids=[row.segment_id for row in rows],
        vectors=vectors.matrix(row.vector for row in rows),
        scores=np.array([row.score_mean for row in rows], dtype=np.float64),
        sources=[row.device_class for row in rows],
        cohorts=[row.cohort for row in rows],
    )


def _write(session: Session, run: Run, rows: Sequence[Segment], plan: Plan) -> None:
    run.distinct_segments, run.clusters, run.split = plan.distinct, len(plan.clusters), plan.split
    run.noise, run.kept = plan.noise, int(plan.kept.sum())
    run.eps, run.eps_source, run.guarded = plan.epsilon.value, plan.epsilon.source, list(plan.guarded)
    for cluster in plan.clusters:
        _write_cluster(session, run.id, cluster, rows, plan)


def _write_cluster(session: Session, run_id: str, cluster: PlannedCluster, rows: Sequence[Segment], plan: Plan) -> None:
    identity, medoid = f"{run_id}-{cluster.label}", rows[cluster.shape.medoid]
    row = ClusterRow(
        id=identity,
        run_id=run_id,
        label=cluster.label,
        members=len(cluster.members),
        centroid=vectors.to_bytes(cluster.shape.centroid),
        medoid=medoid.vector,
        medoid_id=medoid.segment_id,
        radius=cluster.shape.radius,
        score_mean=cluster.score_mean,
        cohorts=dict(cluster.cohorts),
    )
    session.add(row)
    session.flush()
    members = [rows[position] for position in cluster.members]
    order = hardest_first(np.array([one.score_mean for one in members]), [one.segment_id for one in members])
    values = [
        {
            "cluster_id": identity,
            "rank": rank,
            "segment_id": members[index].segment_id,
            "cohort": members[index].cohort,
            "score_mean": members[index].score_mean,
            "vector": members[index].vector,
            "kept": bool(plan.kept[cluster.members[index]]),
        }
        for rank, index in enumerate(order)
    ]
    session.execute(insert(Member), values)


def _forget_old(session: Session) -> None:
    kept = select(Run.id).where(Run.state != REQUESTED).order_by(Run.created.desc()).limit(LIMITS.runs_kept)
    session.execute(delete(Run).where(Run.state != REQUESTED, Run.id.not_in(kept)))
