"""What the routes do: register builds and evaluation sets, answer about them, mark production.

Every function works inside the caller's transaction. Bytes go to the object store under their own hash before the row
that names them is committed, so a row never points at nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence

from sqlalchemy import func, select, tuple_, update
from sqlalchemy.orm import Session

from contracts.clock import clock_from_environment
from contracts.npu.spec import target_names
from contracts.wire import (
    Build,
    BuildRequest,
    BuildSearch,
    BuildState,
    EvaluationSet,
    GateVerdict,
    SearchRecord,
)
from services.builds import evaluation, uploads
from services.builds.limits import UPLOADS
from services.builds.models import BuildRow, EvaluationSetRow
from services.builds.problems import BadBuildRequest, DamagedSet, NoSuchBuild, NotPassed, NotReady, TooManySets
from services.kit import audit
from services.kit.auth import Subject
from services.kit.database import try_lock
from services.kit.outbox import enqueue
from services.kit.pages import PageRequest
from services.kit.problems import Conflict, FieldError
from services.kit.storage import store

TOPIC = "builds.work"


def register(session: Session, subject: Subject, request: BuildRequest, parts: Sequence[uploads.Upload]) -> Build:
    """Keep a checked upload as a queued build and let its work start after the commit."""
    request = _resolved(session, request)
    for part in parts:
        uploads.check(part)
    for part in parts:
        store().put(part.key, part.data)
    row = BuildRow(
        id=f"b-{secrets.token_hex(8)}",
        name=request.name,
        release_version=request.release_version,
        security_epoch=request.security_epoch,
        state=BuildState.QUEUED.value,
        request=request.model_dump(mode="json", exclude={"search"}),
        search=request.search.model_dump(mode="json") if request.search is not None else None,
        inputs={part.part: {"key": part.key, "sha256": part.sha256, "length": len(part.data)} for part in parts},
        subject=str(subject),
        created=clock_from_environment().now(),
    )
    session.add(row)
    session.flush()
    send_work(session, row)
    audit.record(session, subject, "build.requested", f"build:{row.id}", {"name": row.name})
    return describe(row)


def send_work(session: Session, row: BuildRow) -> None:
    """Announce that a build waits in its present state; leaves after the commit."""
    enqueue(session, TOPIC, f"{row.id}:{row.state}", {"build": row.id, "state": row.state})


def find(session: Session, build_id: str) -> BuildRow:
    """The build, or NoSuchBuild."""
    row = session.get(BuildRow, build_id)
    if row is None:
        raise NoSuchBuild(f"build {build_id[:64]!r} is unknown; list them with GET /builds/v1/builds")
    return row


def list_builds(session: Session, page: PageRequest, state: BuildState | None) -> Sequence[BuildRow]:
    """Newest first, one row more than asked for."""
    query = select(BuildRow).order_by(BuildRow.created.desc(), BuildRow.id.desc()).limit(page.limit + 1)
    if state is not None:
        query = query.where(BuildRow.state == state.value)
    if page.after is not None:
        query = query.where(tuple_(BuildRow.created, BuildRow.id) < page.key(float, str))
    return session.scalars(query).all()


def bundle_key(row: BuildRow) -> str:
    """Where the bundle lies; raises NotReady."""
    if not row.bundle_key:
        raise NotReady(f"build {row.id} is {row.state} and has no bundle; {_advice(row)}")
    return row.bundle_key


def evidence_key(row: BuildRow) -> str:
    """Where the evidence lies; raises NotReady."""
    if not row.evidence_key:
        raise NotReady(f"build {row.id} is {row.state} and has no evidence; {_advice(row)}")
    return row.evidence_key


def search(session: Session, build_id: str) -> BuildSearch:
    """The search that the build's model comes from, if its flow told of one; raises NoSuchBuild."""
    row = find(session, build_id)
    told = SearchRecord.model_validate(row.search) if row.search is not None else None
    return BuildSearch(build_id=row.id, search=told)


def mark_production(session: Session, subject: Subject, build_id: str) -> Build:
    """Make this build the one that later candidates are judged against. Doing it again changes nothing."""
    if not try_lock(session, "builds.production"):
        raise Conflict("another production mark is being set at this moment; try again")
    row = find(session, build_id)
    if row.state != BuildState.PASSED.value:
        raise NotPassed(f"build {row.id} is {row.state}; only a build that passed the gate can be production")
    if not row.production:
        session.execute(update(BuildRow).where(BuildRow.production).values(production=False))
        row.production = True
        session.flush()
        audit.record(session, subject, "build.production", f"build:{row.id}", {"digest": row.digest})
    return describe(row)


def add_evaluation_set(session: Session, subject: Subject, data: bytes) -> EvaluationSet:
    """Keep an evaluation set; the same bytes again give the same set."""
    upload = uploads.Upload("evaluation-set", data)
    if known := session.get(EvaluationSetRow, f"e-{upload.sha256[:32]}"):
        return describe_set(known)
    try:
        frames = evaluation.parse(data)
    except evaluation.MalformedSet as error:
        raise DamagedSet(str(error)) from error
    if (session.scalar(select(func.count()).select_from(EvaluationSetRow)) or 0) >= UPLOADS.evaluation_sets:
        raise TooManySets(f"{UPLOADS.evaluation_sets} evaluation sets are kept already; use one of them")
    row = EvaluationSetRow(
        id=f"e-{upload.sha256[:32]}",
        name=frames.name,
        condition=frames.condition,
        frames=len(frames.lr),
        height=frames.lr.shape[1],
        width=frames.lr.shape[2],
        sha256=upload.sha256,
        object_key=f"builds/evaluation/{upload.sha256}.npz",
        created=clock_from_environment().now(),
    )
    store().put(row.object_key, data)
    session.add(row)
    session.flush()
    audit.record(session, subject, "evaluation-set.added", f"evaluation-set:{row.id}", {"name": row.name})
    return describe_set(row)


def list_sets(session: Session, page: PageRequest) -> Sequence[EvaluationSetRow]:
    """Newest first, one row more than asked for."""
    query = select(EvaluationSetRow).order_by(EvaluationSetRow.created.desc(), EvaluationSetRow.id.desc())
    if page.after is not None:
        query = query.where(tuple_(EvaluationSetRow.created, EvaluationSetRow.id) < page.key(float, str))
    return session.scalars(query.limit(page.limit + 1)).all()


def describe(row: BuildRow) -> Build:
    """The build as the wire shows it."""
    return Build(
        id=row.id,
        name=row.name,
        state=BuildState(row.state),
        release_version=row.release_version,
        security_epoch=row.security_epoch,
        digest=row.digest or "",
        size_bytes=row.size_bytes or 0,
        production=bool(row.production),
        verdict=GateVerdict.model_validate(row.verdict) if row.verdict is not None else None,
        message=row.message or "",
        remedy=row.remedy or "",
        created=row.created,
        finished=row.finished,
        lineage=row.request.get("lineage", {}),
    )


def describe_set(row: EvaluationSetRow) -> EvaluationSet:
    """The evaluation set as the wire shows it."""
    return EvaluationSet(
        id=row.id, name=row.name, condition=row.condition, frames=row.frames, sha256=row.sha256, created=row.created
    )


def _resolved(session: Session, request: BuildRequest) -> BuildRequest:
    """The request with its evaluation sets spelled out; raises BadBuildRequest for a name that means nothing."""
    _require(request.targets, set(target_names()), "/meta/targets", "unknown NPU target")
    if request.parent_build is not None:
        parent = session.get(BuildRow, request.parent_build)
        if parent is None or parent.state != BuildState.PASSED.value:
            raise _bad("/meta/parent_build", f"{request.parent_build!r} is not a build that passed the gate")
    rows = session.scalars(select(EvaluationSetRow).order_by(EvaluationSetRow.created, EvaluationSetRow.id)).all()
    _require(request.evaluation_sets, {row.id for row in rows}, "/meta/evaluation_sets", "unknown evaluation set")
    newest = {(row.condition, row.height, row.width): row.id for row in rows}
    chosen = request.evaluation_sets or tuple(sorted(newest.values()))
    names = {row.name for row in rows if row.id in chosen}
    _require(request.float_psnr, names, "/meta/float_psnr", "no chosen evaluation set is called")
    return request.model_copy(update={"evaluation_sets": tuple(dict.fromkeys(chosen))})


def _require(given: Iterable[str], known: set[str], pointer: str, complaint: str) -> None:
    for name in given:
        if name not in known:
            raise _bad(pointer, f"{complaint} {name!r}; known: {', '.join(sorted(known)) or 'none'}")


def _bad(pointer: str, detail: str) -> BadBuildRequest:
    return BadBuildRequest(f"{pointer}: {detail}", errors=[FieldError(pointer, detail)])


def _advice(row: BuildRow) -> str:
    if row.finished is None:
        return f"ask GET /builds/v1/builds/{row.id} until it is finished"
    return row.message or "see the build's message"
