"""HTTP API of curation."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from contracts.clock import clock_from_environment
from contracts.wire.curation import ApplyRequest, ClusterMap, EvaluationVectorBatch, TrainingVectorBatch
from contracts.wire.settings import HeldSettings
from services.curation import evaluation, held, queries, runs, service, standins
from services.curation.applying import PlanMismatch, PlanNotReady, PlanStale, WouldWipeOut, apply_plan
from services.curation.evaluation import TrainingLeak
from services.curation.limits import LIMITS, curation_settings
from services.curation.models import ClusterRow, Run
from services.curation.schemas import (
    ClusterDetail,
    CoverageReport,
    EvaluationSetAnswer,
    RunDetail,
    SegmentInfo,
    StandInReport,
    TrainingSetAnswer,
)
from services.curation.training import RevisionTaken
from services.kit.audit import record
from services.kit.auth import Subject, requires
from services.kit.database import SessionDep
from services.kit.pages import Page, PageDep, page_of
from services.kit.problems import Conflict, FieldError, NotFound, declare

router = APIRouter(tags=["curation"])

Reader = Annotated[Subject, requires("curation:read")]
Writer = Annotated[Subject, requires("curation:write")]
RunId = Annotated[str | None, Query(max_length=64, description="default: the newest finished run")]
CohortName = Annotated[str | None, Query(max_length=80)]
Name = Annotated[str, Path(max_length=80)]


class ClusterPage(Page[ClusterDetail]):
    """A page of clusters of one run (`contracts.wire.curation.ClusterList`)."""

    run_id: str = ""


class NoSuchRun(NotFound):
    slug, title = "no-such-run", "There is no such clustering run"


class NoSuchCluster(NotFound):
    slug, title = "no-such-cluster", "There is no such cluster"


class RevisionConflict(Conflict):
    slug, title = "revision-conflict", "The revision belongs to another training set"


class LeakingTraining(Conflict):
    slug, title = "training-leak", "The training set holds evaluation clips"


@router.get("/v1/held-settings")
def get_held_curation_settings(_: Reader) -> HeldSettings:
    """What a cluster is, when it is covered, and how long segments are kept, with units and variables."""
    return held.held()


@router.get("/v1/clusters", responses=declare(NoSuchRun))
def list_clusters(
    _: Reader, session: SessionDep, page: PageDep, run_id: RunId = None, cohort: CohortName = None
) -> ClusterPage:
    """Clusters of a run with their coverage by the newest training set; empty while no run has finished.

    With `cohort` those that have members of it.
    """
    run = _run(session, run_id)
    if run is None:
        return ClusterPage(items=[])
    rows = queries.clusters(session, run, page, cohort)
    made = page_of(rows, page, queries.listed, lambda one: (one[0].label,))
    return ClusterPage(items=made.items, next_cursor=made.next_cursor, run_id=run.id)


@router.get("/v1/cluster-map", responses=declare(NoSuchRun))
def get_cluster_map(_: Reader, session: SessionDep, run_id: RunId = None, cohort: CohortName = None) -> ClusterMap:
    """Where the clusters of a run lie, for a picture, in one answer. With `cohort` those that have members of it."""
    run = _run(session, run_id)
    return ClusterMap() if run is None else queries.cluster_map(session, run, cohort)


@router.get("/v1/clusters/{cluster_id}", responses=declare(NoSuchCluster))
def get_cluster(_: Reader, session: SessionDep, cluster_id: Name) -> ClusterDetail:
    """One cluster with its members, hardest first."""
    return queries.cluster(session, _cluster(session, cluster_id))


@router.get("/v1/clusters/{cluster_id}/stand-ins", responses=declare(NoSuchCluster))
def get_cluster_stand_ins(_: Reader, session: SessionDep, cluster_id: Name) -> StandInReport:
    """Training clips that lie nearest to the cluster's hardest members, and how many of them they reach."""
    return standins.stand_ins(session, _cluster(session, cluster_id))


@router.post("/v1/runs", status_code=202)
def request_curation_run(who: Writer, session: SessionDep) -> RunDetail:
    """Ask for a clustering now; a run that already waits is returned. Follow it at `/v1/runs/{id}`."""
    run = runs.request_run(session, clock_from_environment().now())
    record(session, who, "curation.run", f"curation-run:{run.id}")
    return queries.run_detail(session, run)


@router.get("/v1/runs/{run_id}", responses=declare(NoSuchRun))
def get_curation_run(_: Reader, session: SessionDep, run_id: Name) -> RunDetail:
    """One run and its state."""
    run = _run(session, run_id)
    assert run is not None  # a named run is found or refused
    return queries.run_detail(session, run)


@router.post(
    "/v1/runs/{run_id}/apply", responses=declare(NoSuchRun, PlanNotReady, PlanMismatch, PlanStale, WouldWipeOut)
)
def apply_curation_plan(who: Writer, session: SessionDep, run_id: Name, asked: ApplyRequest) -> RunDetail:
    """Let go of the segments that the run's plan does not keep. Applying it again changes nothing."""
    run = _run(session, run_id)
    assert run is not None  # a named run is found or refused
    if apply_plan(session, run, asked.digest, clock_from_environment().now(), curation_settings()):
        detail = {"digest": run.digest, "kept": run.kept, "dropped": run.dropped}
        record(session, who, "curation.apply", f"curation-run:{run.id}", detail)
    return queries.run_detail(session, run)


@router.get("/v1/coverage", responses=declare(NoSuchRun))
def get_coverage(_: Reader, session: SessionDep, run_id: RunId = None) -> CoverageReport:
    """How well the training set covers the clusters, before and after its newest revision."""
    return queries.coverage_report(session, _run(session, run_id))


@router.post("/v1/training-vectors", responses=declare(RevisionConflict, LeakingTraining))
def post_training_vectors(who: Writer, session: SessionDep, batch: TrainingVectorBatch) -> TrainingSetAnswer:
    """Store a training set as vectors; its revision makes this idempotent. Coverage is computed at once."""
    now = clock_from_environment().now()
    try:
        posted = service.post_training_set(session, batch, now, curation_settings())
    except RevisionTaken as error:
        raise RevisionConflict(f"{error}; post changed vectors under a new revision") from error
    except TrainingLeak as error:
        raise LeakingTraining(str(error), errors=_places(error)) from error
    stored, zeros = posted.stored, len(batch.vectors) - posted.stored.vectors
    if posted.new:
        detail = {"vectors": stored.vectors, "parent": stored.parent}
        record(session, who, "curation.training-set", f"training-set:{stored.revision}", detail)
    return TrainingSetAnswer(
        revision=stored.revision,
        vectors=stored.vectors,
        eps_cov=stored.eps_cov,
        duplicate=not posted.new,
        left_out={"zero-vector": zeros} if zeros else {},
        near_evaluation=posted.near_others,
    )


@router.post("/v1/evaluation-vectors", responses=declare(RevisionConflict))
def post_evaluation_vectors(who: Writer, session: SessionDep, batch: EvaluationVectorBatch) -> EvaluationSetAnswer:
    """Store what models are judged by, as vectors: training sets posted after it may not hold its clips."""
    try:
        new = evaluation.add_evaluation_set(session, batch, clock_from_environment().now())
    except RevisionTaken as error:
        raise RevisionConflict(f"{error}; post changed vectors under a new revision") from error
    if new:
        subject = f"evaluation-set:{batch.revision}"
        record(session, who, "curation.evaluation-set", subject, {"vectors": len(batch.vectors)})
    return EvaluationSetAnswer(revision=batch.revision, vectors=len(batch.vectors), duplicate=not new)


@router.get("/v1/segments")
def list_segments(_: Reader, session: SessionDep, page: PageDep) -> Page[SegmentInfo]:
    """Hard segments, newest first."""
    rows = queries.segments(session, page)
    return page_of(rows, page, queries.segment, lambda row: (row.hour, row.segment_id))


def _cluster(session: SessionDep, cluster_id: str) -> ClusterRow:
    row = session.get(ClusterRow, cluster_id)
    if row is None:
        raise NoSuchCluster(f"cluster {cluster_id} is unknown or its run was forgotten; list the clusters again")
    return row


def _run(session: SessionDep, run_id: str | None) -> Run | None:
    run = queries.chosen_run(session, run_id)
    if run is None and run_id is not None:
        raise NoSuchRun(f"run {run_id} is unknown or was forgotten; ask without an id for the newest")
    return run


def _places(error: TrainingLeak) -> list[FieldError]:
    return [
        FieldError(f"/vectors/{leak.row}", f"clip {leak.clip}, distance {leak.distance:.4g}") for leak in error.leaks
    ][: LIMITS.leaks_told]
