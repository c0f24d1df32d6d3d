"""Routes of the claims service: evidence is filed, listed, read and checked; nothing changes or removes it."""

from typing import Annotated

from fastapi import APIRouter, File, Form, Response, UploadFile
from pydantic import ValidationError

from services.claims import service
from services.claims.limits import EVIDENCE
from services.claims.problems import BadEvidence, EvidenceExists, NoSuchEvidence
from services.claims.schemas import EvidenceCheck, EvidenceRecord, Manifest
from services.kit.auth import Subject, requires
from services.kit.database import SessionDep
from services.kit.pages import Page, PageDep, page_of
from services.kit.problems import FieldError, Forbidden, TooLarge, Unauthorized, declare, pointer_of
from services.kit.storage import store

router = APIRouter(tags=["claims"])

Reader = Annotated[Subject, requires("audit:read")]
Writer = Annotated[Subject, requires("audit:write")]


@router.post(
    "/v1/evidence",
    status_code=201,
    responses=declare(Unauthorized, Forbidden, BadEvidence, EvidenceExists, TooLarge),
)
def file_evidence(
    subject: Writer,
    session: SessionDep,
    manifest: Annotated[str, Form(description="Manifest as JSON", max_length=EVIDENCE.manifest_bytes)],
    logs: Annotated[list[UploadFile], File(description="the raw logs, named as in the manifest")],
) -> EvidenceRecord:
    """File evidence, once. The same evidence again is answered with what is there; another under its id is refused."""
    parsed = _parse(manifest)
    if len(logs) > EVIDENCE.logs:
        raise BadEvidence(f"evidence has at most {EVIDENCE.logs} logs, sent were {len(logs)}; pack them together")
    return service.file_evidence(session, subject, parsed, {file.filename or "": _read(file) for file in logs})


@router.get("/v1/evidence", responses=declare(Unauthorized, Forbidden))
def list_evidence(subject: Reader, session: SessionDep, page: PageDep) -> Page[EvidenceRecord]:
    """Evidence, newest first."""
    rows = service.list_evidence(session, page)
    return page_of(rows, page, service.describe, lambda row: (row.filed_at.isoformat(), row.id))


@router.get("/v1/evidence/{evidence_id}", responses=declare(Unauthorized, Forbidden, NoSuchEvidence))
def get_evidence(subject: Reader, session: SessionDep, evidence_id: str) -> EvidenceRecord:
    """One piece of evidence."""
    return service.describe(service.find(session, evidence_id))


@router.get("/v1/evidence/{evidence_id}/verification", responses=declare(Unauthorized, Forbidden, NoSuchEvidence))
def verify_evidence(subject: Reader, session: SessionDep, evidence_id: str) -> EvidenceCheck:
    """Hash manifest and logs again and compare them with what was filed and with the audit trail."""
    return service.verify(session, evidence_id)


@router.get(
    "/v1/evidence/{evidence_id}/logs/{name}",
    response_class=Response,
    responses=declare(Unauthorized, Forbidden, NoSuchEvidence),
)
def get_log(subject: Reader, session: SessionDep, evidence_id: str, name: str) -> Response:
    """The bytes of a raw log, as a download."""
    log = service.find_log(session, evidence_id, name)
    headers = {"Content-Disposition": f'attachment; filename="{log.name}"', "ETag": f'"{log.sha256}"'}
    return Response(store().get(service.log_key(log)), media_type="application/octet-stream", headers=headers)


def _parse(manifest: str) -> Manifest:
    try:
        return Manifest.model_validate_json(manifest)
    except ValidationError as error:
        faults = [FieldError("/manifest" + pointer_of(entry["loc"]), entry["msg"]) for entry in error.errors()][:50]
        places = ", ".join(fault.pointer for fault in faults[:5])
        raise BadEvidence(f"the manifest does not match its schema at {places}", errors=faults) from error


def _read(file: UploadFile) -> bytes:
    data = file.file.read(EVIDENCE.log_bytes + 1)
    if len(data) > EVIDENCE.log_bytes:
        raise TooLarge(f"log {file.filename} has more than {EVIDENCE.log_bytes:,} bytes; compress or cut it")
    return data
