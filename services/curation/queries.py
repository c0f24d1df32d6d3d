"""Read side of curation: what the API shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sqlalchemy import select, tuple_
from sqlalchemy.orm import Session

from contracts.wire.curation import ClusterMap, ClusterPoint, Coverage, CoverageState
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

Listed = tuple[ClusterRow, CoverageRow | None]


def clusters(session: Session, run: Run, request: PageRequest, cohort: str | None = None) -> Sequence[Listed]:
    """Return up to `limit + 1` clusters of a run by label, with their coverage; with a cohort those with members of it.

    Coverage is by the newest training set that can be compared with the run.
    """
    newest = training.newest_revision(run.embedding_id).scalar_subquery()
    own = (CoverageRow.cluster_id == ClusterRow.id) & (CoverageRow.revision == newest)
    statement = select(ClusterRow, CoverageRow).outerjoin(CoverageRow, own).where(ClusterRow.run_id == run.id)
    if cohort is not None:
        statement = statement.where(ClusterRow.cohorts.has_key(cohort))
    if request.after is not None:
        statement = statement.where(ClusterRow.label > request.key(int)[0])
    rows = session.execute(statement.order_by(ClusterRow.label).limit(request.limit + 1))
    return [(row, coverage) for row, coverage in rows]


def cluster_map(session: Session, run: Run, cohort: str | None = None) -> ClusterMap:
    """Return where the clusters of a run lie, at most `LIMITS.map_points` of them, with the state of their coverage."""
    newest = training.newest_revision(run.embedding_id).scalar_subquery()
    own = (CoverageRow.cluster_id == ClusterRow.id) & (CoverageRow.revision == newest)
    columns = (ClusterRow.id, ClusterRow.label, ClusterRow.members, ClusterRow.centroid, CoverageRow.state)
    statement = select(*columns).outerjoin(CoverageRow, own).where(ClusterRow.run_id == run.id)
    if cohort is not None:
        statement = statement.where(ClusterRow.cohorts.has_key(cohort))
    rows = session.execute(statement.order_by(ClusterRow.label).limit(LIMITS.map_points + 1)).all()
    points = (
        ClusterPoint(id=name, label=label, members=members, centroid=vectors.numbers(vector), state=state)
        for name, label, members, vector, state in rows[: LIMITS.map_points]
    )
    return ClusterMap(items=tuple(points), run_id=run.id, complete=len(rows) <= LIMITS.map_points)


def segments(session: Session, request: PageRequest) -> Sequence[Segment]:
    """Return up to `limit + 1` segments, newest hour first."""
    statement = select(Segment).order_by(Segment.hour.desc(), Segment.segment_id.desc())
    if request.after is not None:
        statement = statement.where(tuple_(Segment.hour, Segment.segment_id) < request.key(int, str))
    return session.scalars(statement.limit(request.limit + 1)).all()


def cluster(session: Session, row: ClusterRow) -> ClusterDetail:
    """Return a cluster as the API shows it, with its members."""
    embedding = session.get_one(Run, row.run_id).embedding_id
    newest = training.newest_revision(embedding).scalar_subquery()
    own = (CoverageRow.cluster_id == row.id, CoverageRow.revision == newest)
    return _cluster(row, session.scalar(select(CoverageRow).where(*own)), hardest(session, row.id))


def listed(one: Listed) -> ClusterDetail:
    """Return a cluster as the API shows it, without its members."""
    return _cluster(*one, ())


def _cluster(row: ClusterRow, coverage: CoverageRow | None, members: Sequence[Member]) -> ClusterDetail:
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
        coverage=None if coverage is None else _coverage(coverage),
        member_vectors=tuple(vectors.numbers(member.vector) for member in members),
        listed=tuple(
            ClusterMember(segment_id=m.segment_id, cohort=m.cohort, score_mean=m.score_mean, kept=m.kept)
            for m in members
        ),
    )


def coverage_report(session: Session, run: Run | None) -> CoverageReport:
    """Return coverage of a run before and after the newest training set."""
    if run is None:
        return CoverageReport()
    newest = training.latest_revision(session, run.embedding_id, vectors_later=True)
    earlier = training.revision_before(session, newest, run.embedding_id) if newest else None
    rows = _coverage_rows(session, run, [one.revision for one in (newest, earlier) if one is not None])
    after = _revision_coverage(run, newest, rows)
    return CoverageReport(
        run_id=run.id,
        created=run.created,
        segments=run.segments,
        clusters=run.clusters,
        uncovered=after.uncovered_clusters,
        before=_revision_coverage(run, earlier, rows) if newest else None,
        after=after,
        other_training_sets=training.count_others(session, run.embedding_id),
    )


def run_detail(session: Session, run: Run) -> RunDetail:
    """Return a run as the API shows it."""
    newest = training.latest_revision(session, run.embedding_id, vectors_later=True)
    rows = _coverage_rows(session, run, [newest.revision] if newest else [])
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
        covered_share=_revision_coverage(run, newest, rows).share,
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


def _coverage(row: CoverageRow) -> Coverage:
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


def _coverage_rows(session: Session, run: Run, revisions: Sequence[str]) -> Sequence[CoverageRow]:
    query = select(CoverageRow).where(CoverageRow.run_id == run.id, CoverageRow.revision.in_(revisions))
    return session.scalars(query).all() if revisions else ()


def _revision_coverage(run: Run, training_set: TrainingSet | None, stored: Sequence[CoverageRow]) -> RevisionCoverage:
    if training_set is None:
        members = run.segments - run.noise
        low, high = wilson_interval(0, members)
        return RevisionCoverage(revision="", members=members, low=low, high=high, uncovered_clusters=run.clusters)
    rows = [row for row in stored if row.revision == training_set.revision]
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
