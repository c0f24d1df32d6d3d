"""Read side of curation: what the API shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sqlalchemy import select, tuple_
from sqlalchemy.orm import Session

from contracts.wire.curation import Coverage, CoverageState
from services.curation import training, vectors
from services.curation.domain.coverage import wilson_interval
from services.curation.limits import LIMITS
from services.curation.models import ClusterRow, CoverageRow, Member, Run, Segment, TrainingSet
from services.curation.runs import latest_done
from services.curation.schemas import (
    ClusterDetail,
    ClusterMember,
    CoverageReport,
    RevisionCoverage,
    RunDetail,
    SegmentInfo,
)
from services.kit.pages import PageRequest


def clusters(session: Session, run_id: str, request: PageRequest, cohort: str | None = None) -> Sequence[ClusterRow]:
    """Return up to `limit + 1` clusters of a run by label; with a cohort those that have members of it."""
    statement = select(ClusterRow).where(ClusterRow.run_id == run_id).order_by(ClusterRow.label)
    if cohort is not None:
        statement = statement.where(ClusterRow.cohorts.has_key(cohort))
    if request.after is not None:
        statement = statement.where(ClusterRow.label > request.key(int)[0])
    return session.scalars(statement.limit(request.limit + 1)).all()


def segments(session: Session, request: PageRequest) -> Sequence[Segment]:
    """Return up to `limit + 1` segments, newest hour first."""
    statement = select(Segment).order_by(Segment.hour.desc(), Segment.segment_id.desc())
    if request.after is not None:
        statement = statement.where(tuple_(Segment.hour, Segment.segment_id) < request.key(int, str))
    return session.scalars(statement.limit(request.limit + 1)).all()


def cluster(session: Session, row: ClusterRow, members: bool = False) -> ClusterDetail:
    """Return a cluster as the API shows it, on request with its members."""
    listed = hardest(session, row.id) if members else []
    return ClusterDetail(
        id=row.id,
        label=row.label,
        members=row.members,
        centroid=vectors.numbers(row.centroid),
        medoid=vectors.numbers(row.medoid),
        medoid_id=row.medoid_id,
        radius=row.radius,
        score_mean=row.score_mean,
        cohorts=row.cohorts,
        coverage=_coverage_of(session, row),
        member_vectors=tuple(vectors.numbers(member.vector) for member in listed),
        listed=tuple(
            ClusterMember(segment_id=m.segment_id, cohort=m.cohort, score_mean=m.score_mean, kept=m.kept)
            for m in listed
        ),
    )


def coverage_report(session: Session, run: Run | None) -> CoverageReport:
    """Return coverage of a run before and after the newest training set."""
    if run is None:
        return CoverageReport()
    newest = training.latest_revision(session, run.embedding_id)
    earlier = training.revision_before(session, newest, run.embedding_id) if newest else None
    after = _revision_coverage(session, run, newest)
    return CoverageReport(
        run_id=run.id,
        created=run.created,
        segments=run.segments,
        clusters=run.clusters,
        uncovered=after.uncovered_clusters,
        before=_revision_coverage(session, run, earlier) if newest else None,
        after=after,
        other_training_sets=training.count_others(session, run.embedding_id),
    )


def run_detail(session: Session, run: Run) -> RunDetail:
    """Return a run as the API shows it."""
    newest = training.latest_revision(session, run.embedding_id)
    return RunDetail(
        id=run.id,
        state=run.state,
        embedding_id=run.embedding_id,
        segments=run.segments,
        distinct_segments=run.distinct_segments,
        clusters=run.clusters,
        split=run.split,
        noise=run.noise,
        kept=run.kept,
        eps=run.eps,
        eps_source=run.eps_source,
        guarded=tuple(run.guarded),
        other_embeddings=run.other_embeddings,
        error=run.error,
        recall=run.recall,
        digest=run.digest,
        base_run=run.base_run,
        inserted=run.inserted,
        applied=run.applied,
        dropped=run.dropped,
        covered_share=_revision_coverage(session, run, newest).share,
        created=run.created or 0.0,
    )


def segment(row: Segment) -> SegmentInfo:
    """Return a segment as the API shows it."""
    return SegmentInfo(
        segment_id=row.segment_id,
        embedding_id=row.embedding_id,
        model_version=row.model_version,
        hour=row.hour,
        cohort=row.cohort,
        network=row.network,
        score_mean=row.score_mean,
        score_max=row.score_max,
        motion=row.motion,
        vector=vectors.numbers(row.vector),
        dropped=row.dropped_by is not None,
    )


def hardest(session: Session, cluster_id: str) -> list[Member]:
    """Return the members of a cluster that are told one by one, hardest first."""
    statement = select(Member).where(Member.cluster_id == cluster_id).order_by(Member.rank)
    return list(session.scalars(statement.limit(LIMITS.detail_members)))


def chosen_run(session: Session, run_id: str | None) -> Run | None:
    """Return the named run, or the newest finished one."""
    return session.get(Run, run_id) if run_id is not None else latest_done(session)


def _coverage_of(session: Session, cluster: ClusterRow) -> Coverage | None:
    newest = training.latest_revision(session, session.get_one(Run, cluster.run_id).embedding_id)
    row = session.get(CoverageRow, (cluster.id, newest.revision)) if newest else None
    if row is None:
        return None
    return Coverage(
        state=CoverageState(row.state),
        share=row.share,
        low=row.low,
        high=row.high,
        members=row.members,
        covered=row.covered,
        eps_cov=row.eps_cov,
        revision=row.revision,
    )


def _revision_coverage(session: Session, run: Run, training_set: TrainingSet | None) -> RevisionCoverage:
    if training_set is None:
        members = run.segments - run.noise
        low, high = wilson_interval(0, members)
        return RevisionCoverage(revision="", members=members, low=low, high=high, uncovered_clusters=run.clusters)
    statement = select(CoverageRow).where(CoverageRow.run_id == run.id, CoverageRow.revision == training_set.revision)
    rows = session.scalars(statement).all()
    members, covered = sum(row.members for row in rows), sum(row.covered for row in rows)
    low, high = wilson_interval(covered, members)
    states = Counter(CoverageState(row.state) for row in rows)
    return RevisionCoverage(
        revision=training_set.revision,
        parent=training_set.parent,
        vectors=training_set.vectors,
        eps_cov=training_set.eps_cov,
        members=members,
        covered=covered,
        share=covered / members if members else 0.0,
        low=low,
        high=high,
        covered_clusters=states[CoverageState.COVERED],
        partial_clusters=states[CoverageState.PARTIAL],
        uncovered_clusters=run.clusters - states[CoverageState.COVERED] - states[CoverageState.PARTIAL],
    )
