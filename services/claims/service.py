"""What the routes do: file evidence once, find it, check that it is still what was filed.

Logs go to the object store under their own hash before the row that names them is committed. Evidence is written
once: the same again is answered with what is there, anything else under its id is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from sqlalchemy import select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from services.claims.limits import EVIDENCE
from services.claims.models import EvidenceRow
from services.claims.problems import BadEvidence, EvidenceExists, NoSuchEvidence
from services.claims.schemas import EvidenceCheck, EvidenceRecord, Log, Manifest
from services.kit import audit
from services.kit.auth import Subject
from services.kit.models import AuditEntry
from services.kit.pages import PageRequest
from services.kit.problems import MalformedPayload
from services.kit.storage import ObjectMissing, store

FILED = "evidence.filed"


def log_key(log: Log) -> str:
    """Where the object store keeps a log: by content."""
    return f"claims/logs/{log.sha256}"


def file_evidence(session: Session, subject: Subject, manifest: Manifest, logs: Mapping[str, bytes]) -> EvidenceRecord:
    """Keep evidence for good; raises BadEvidence or EvidenceExists."""
    _check_logs(manifest, logs)
    for log in manifest.logs:
        if not _kept(log):
            store().put(log_key(log), logs[log.name])
    now = datetime.now(UTC)
    row = {
        "id": manifest.id,
        "digest": manifest.digest(),
        "manifest": manifest.model_dump(mode="json"),
        "filed_by": str(subject),
        "filed_at": now,
        "keep_until": years_later(now, EVIDENCE.keep_years),
    }
    made = session.execute(insert(EvidenceRow).values(row).on_conflict_do_nothing().returning(EvidenceRow.id)).first()
    kept = find(session, manifest.id)
    if kept.digest != row["digest"]:
        raise EvidenceExists(f"evidence {manifest.id} was filed on {kept.filed_at:%Y-%m-%d} and stays; use a new id")
    if made is not None:
        audit.record(session, subject, FILED, f"evidence:{manifest.id}", {"digest": manifest.digest()})
    return describe(kept)


def years_later(moment: datetime, years: int) -> datetime:
    """The same moment `years` later; never earlier than that (29 February becomes 1 March)."""
    try:
        return moment.replace(year=moment.year + years)
    except ValueError:
        return moment.replace(year=moment.year + years, month=3, day=1)


def find(session: Session, evidence_id: str) -> EvidenceRow:
    """The row, or NoSuchEvidence."""
    row = session.get(EvidenceRow, evidence_id)
    if row is None:
        raise NoSuchEvidence(f"evidence {evidence_id[:64]!r} is unknown; list it with GET /claims/v1/evidence")
    return row


def list_evidence(session: Session, page: PageRequest) -> Sequence[EvidenceRow]:
    """Newest first, one row more than asked for."""
    query = select(EvidenceRow).order_by(EvidenceRow.filed_at.desc(), EvidenceRow.id.desc()).limit(page.limit + 1)
    if page.after is not None:
        moment, name = page.key(str, str)
        query = query.where(tuple_(EvidenceRow.filed_at, EvidenceRow.id) < (_moment(moment), name))
    return session.scalars(query).all()


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise MalformedPayload("the cursor is not one of this list; start again without it") from error


def describe(row: EvidenceRow) -> EvidenceRecord:
    """A row as it is answered."""
    return EvidenceRecord(
        digest=row.digest,
        filed_by=row.filed_by,
        filed_at=row.filed_at,
        keep_until=row.keep_until,
        manifest=Manifest.model_validate(row.manifest),
    )


def find_log(session: Session, evidence_id: str, name: str) -> Log:
    """One log of a piece of evidence, or NoSuchEvidence."""
    manifest = describe(find(session, evidence_id)).manifest
    for log in manifest.logs:
        if log.name == name:
            return log
    raise NoSuchEvidence(
        f"evidence {evidence_id} has no log {name[:100]!r}; it has {[log.name for log in manifest.logs]}"
    )


def verify(session: Session, evidence_id: str) -> EvidenceCheck:
    """Hash everything again and compare it with the manifest, the row and the audit trail."""
    faults = tuple(_faults(session, find(session, evidence_id)))
    return EvidenceCheck(id=evidence_id, ok=not faults, faults=faults)


def _faults(session: Session, row: EvidenceRow) -> Iterator[str]:
    manifest = Manifest.model_validate(row.manifest)
    if manifest.digest() != row.digest:
        yield f"the manifest hashes to {manifest.digest()}, filed was {row.digest}"
    trail = select(AuditEntry).where(AuditEntry.action == FILED, AuditEntry.subject == f"evidence:{row.id}")
    filed = session.scalars(trail.order_by(AuditEntry.id)).first()
    if filed is None or filed.detail.get("digest") != row.digest:
        yield "the audit trail does not name this digest"
    for log in manifest.logs:
        try:
            found = hashlib.sha256(store().get(log_key(log))).hexdigest()
        except ObjectMissing:
            yield f"log {log.name} is gone from the object store"
            continue
        if found != log.sha256:
            yield f"log {log.name} hashes to {found}, filed was {log.sha256}"


def _check_logs(manifest: Manifest, logs: Mapping[str, bytes]) -> None:
    named = {log.name: log for log in manifest.logs}
    if len(named) != len(manifest.logs) or named.keys() != logs.keys():
        raise BadEvidence(f"the manifest names the logs {sorted(named)}, sent were {sorted(logs)}; send each once")
    for name, data in logs.items():
        log = named[name]
        if len(data) != log.bytes or hashlib.sha256(data).hexdigest() != log.sha256:
            raise BadEvidence(f"log {name} is not the file that the manifest names; hash and send it again")


def _kept(log: Log) -> bool:
    """Whether the store holds these very bytes already (a torn write of an earlier try is written again)."""
    try:
        return hashlib.sha256(store().get(log_key(log))).hexdigest() == log.sha256
    except ObjectMissing:
        return False
