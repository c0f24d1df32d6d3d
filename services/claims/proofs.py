"""What the linter may follow a citation to: evidence of an archive, or of the platform."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from services.claims import archive
from services.claims.domain.lint import Proof
from services.claims.domain.rules import Rulebook
from services.claims.schemas import EvidenceRecord
from services.kit.clients import ServiceClient, ServiceRefused


def of_archive(path: Path, book: Rulebook) -> Mapping[str, Proof]:
    """Proofs in an exported archive; raises ArchiveError when anything in it changed."""
    wrong = archive.faults(path)
    if wrong:
        raise archive.ArchiveError(f"{path} was changed: {wrong[0]}")
    return of_records(archive.records(path), book)


def of_platform(platform: ServiceClient, cited: Iterable[str], book: Rulebook) -> Mapping[str, Proof]:
    """Proofs of the cited ids that the platform keeps."""
    found = []
    for name in sorted(set(cited)):
        try:
            found.append(EvidenceRecord.model_validate(platform.get(f"/v1/evidence/{name}")))
        except ServiceRefused as refusal:
            if refusal.status != 404:
                raise
    return of_records(found, book)


def of_records(records: Iterable[EvidenceRecord], book: Rulebook) -> Mapping[str, Proof]:
    """Proofs of these records; a unit that the rulebook does not know stays as it was written."""
    return {
        record.manifest.id: Proof(
            frozenset(
                (entry.value, book.units.get(entry.unit.lower(), entry.unit)) for entry in record.manifest.values
            ),
            record.keep_until,
        )
        for record in records
    }
