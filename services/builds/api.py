"""Routes of the builds service; the work itself happens in `tasks`."""

import hashlib
from typing import Annotated

from fastapi import APIRouter, Body, File, Form, Path, Query, Response, UploadFile
from pydantic import ValidationError
from starlette.responses import FileResponse

from contracts.wire import Build, BuildList, BuildRequest, BuildSearch, BuildState, EvaluationSet, EvaluationSetList
from contracts.wire.bundle_report import BundleReport, ProfileReport
from contracts.wire.settings import HeldSettings
from services.builds import held, problems, reports, service, uploads
from services.kit.auth import Subject, requires
from services.kit.database import SessionDep
from services.kit.idempotency import IdempotencyKey, KeyReused, StillRunning, once
from services.kit.pages import PageDep, page_of
from services.kit.problems import FieldError, Forbidden, TooLarge, Unauthorized, declare, pointer_of
from services.kit.storage import store

router = APIRouter(tags=["builds"])

Reader = Annotated[Subject, requires("builds:read")]
Writer = Annotated[Subject, requires("builds:write")]
StateFilter = Annotated[BuildState | None, Query()]
NPZ = "application/octet-stream"
BUNDLE = "application/vnd.edgeloop.bundle"


@router.post(
    "/v1/builds",
    status_code=202,
    responses=declare(
        Unauthorized, Forbidden, problems.DamagedPart, problems.BadBuildRequest, TooLarge, KeyReused, StillRunning
    ),
)
def create_build(
    subject: Writer,
    session: SessionDep,
    response: Response,
    model: Annotated[UploadFile, File(description="INT8 QDQ ONNX of the model")],
    quality: Annotated[UploadFile, File(description="INT8 QDQ ONNX of the quality net")],
    observer: Annotated[UploadFile, File(description="observer.npz")],
    meta: Annotated[str, Form(description="BuildRequest as JSON")],
    key: IdempotencyKey = None,
) -> Build:
    """Compile a model and judge it on devices; the answer's Location tells where to watch."""
    request = _parse_meta(meta)
    parts = [_read(name, file) for name, file in (("model", model), ("quality", quality), ("observer", observer))]
    whole = hashlib.sha256(request.model_dump_json().encode() + "".join(part.sha256 for part in parts).encode())
    build = once(
        session, subject, key, whole.digest(), Build, lambda: service.register(session, subject, request, parts)
    )
    response.headers["Location"] = f"/builds/v1/builds/{build.id}"
    return build


@router.get("/v1/builds", responses=declare(Unauthorized, Forbidden))
def list_builds(subject: Reader, session: SessionDep, page: PageDep, state: StateFilter = None) -> BuildList:
    """Builds, newest first."""
    found = page_of(
        service.list_builds(session, page, state), page, service.describe, lambda row: (row.created, row.id)
    )
    return BuildList(items=tuple(found.items), next_cursor=found.next_cursor)


@router.get("/v1/builds/{build_id}", responses=declare(Unauthorized, Forbidden, problems.NoSuchBuild))
def get_build(subject: Reader, session: SessionDep, build_id: str) -> Build:
    """One build with its verdict."""
    return service.describe(service.find(session, build_id))


@router.get(
    "/v1/builds/{build_id}/bundle",
    response_class=FileResponse,
    responses=declare(Unauthorized, Forbidden, problems.NoSuchBuild, problems.NotReady),
)
def get_bundle(subject: Reader, session: SessionDep, build_id: str) -> FileResponse:
    """The bundle file; its SHA-384 is the ETag. Present from the gate on, also for a blocked build."""
    row = service.find(session, build_id)
    path = store().path(service.bundle_key(row))
    return FileResponse(path, media_type=BUNDLE, filename=f"{row.name}.elb", headers={"ETag": f'"{row.digest}"'})


@router.get(
    "/v1/builds/{build_id}/evidence",
    response_class=Response,
    responses=declare(Unauthorized, Forbidden, problems.NoSuchBuild, problems.NotReady),
)
def get_evidence(subject: Reader, session: SessionDep, build_id: str) -> Response:
    """The evidence behind the verdict, as JSON."""
    row = service.find(session, build_id)
    return Response(store().get(service.evidence_key(row)), media_type="application/json")


@router.get("/v1/builds/{build_id}/search", responses=declare(Unauthorized, Forbidden, problems.NoSuchBuild))
def get_build_search(subject: Reader, session: SessionDep, build_id: str) -> BuildSearch:
    """The search that the model comes from: networks with quality, latency and size; null where nobody told of one."""
    return service.search(session, build_id)


@router.get(
    "/v1/builds/{build_id}/report",
    responses=declare(Unauthorized, Forbidden, problems.NoSuchBuild, problems.NotReady),
)
def get_bundle_report(subject: Reader, session: SessionDep, build_id: str) -> BundleReport:
    """What the compiler tells of the bundle: sizes, placement of operators, and each program at each input size."""
    return reports.report(service.find(session, build_id))


@router.get(
    "/v1/builds/{build_id}/report/profiles/{number}",
    responses=declare(Unauthorized, Forbidden, problems.NoSuchBuild, problems.NotReady, problems.NoSuchProfile),
)
def get_profile_report(
    subject: Reader, session: SessionDep, build_id: str, number: Annotated[int, Path(ge=0, le=10_000)]
) -> ProfileReport:
    """One program at one input size in full: kernels, memory map and timeline of one frame."""
    return reports.profile(service.find(session, build_id), number)


@router.post(
    "/v1/builds/{build_id}/production",
    responses=declare(Unauthorized, Forbidden, problems.NoSuchBuild, problems.NotPassed),
)
def mark_production(subject: Writer, session: SessionDep, build_id: str) -> Build:
    """Later candidates are judged against this build."""
    return service.mark_production(session, subject, build_id)


@router.post(
    "/v1/evaluation-sets",
    status_code=201,
    responses=declare(Unauthorized, Forbidden, problems.DamagedSet, problems.TooManySets, TooLarge),
)
def add_evaluation_set(
    subject: Writer, session: SessionDep, data: Annotated[bytes, Body(media_type=NPZ)]
) -> EvaluationSet:
    """Add held-out frames with ground truth (npz); the same bytes give the same set again."""
    return service.add_evaluation_set(session, subject, data)


@router.get("/v1/held-settings", responses=declare(Unauthorized, Forbidden))
def get_held_build_settings(subject: Reader, session: SessionDep) -> HeldSettings:
    """The gate's thresholds with their units, and since when they hold. They are part of the release."""
    return held.held(session)


@router.get("/v1/evaluation-sets", responses=declare(Unauthorized, Forbidden))
def list_evaluation_sets(subject: Reader, session: SessionDep, page: PageDep) -> EvaluationSetList:
    """Evaluation sets, newest first."""
    found = page_of(service.list_sets(session, page), page, service.describe_set, lambda row: (row.created, row.id))
    return EvaluationSetList(items=tuple(found.items), next_cursor=found.next_cursor)


def _read(name: str, file: UploadFile) -> uploads.Upload:
    limit = uploads.PART_LIMITS[name]
    data = file.file.read(limit + 1)
    if len(data) > limit:
        raise problems.PartTooLarge(f"part {name} has more than the {limit:,} bytes that are allowed")
    return uploads.Upload(name, data)


def _parse_meta(meta: str) -> BuildRequest:
    try:
        return BuildRequest.model_validate_json(meta)
    except ValidationError as error:
        errors = [FieldError(f"/meta{pointer_of(entry['loc'])}", entry["msg"]) for entry in error.errors()]
        places = ", ".join(entry.pointer for entry in errors[:5])
        raise problems.BadBuildRequest(f"part meta is not a BuildRequest at {places}", errors=errors[:50]) from error
