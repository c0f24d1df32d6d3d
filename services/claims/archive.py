"""Evidence as one file: a deterministic tar with each record, its logs and `SHA256SUMS`, and its check without a
platform.

    <id>/record.json        as the platform answered it: digest, who, when, manifest
    <id>/logs/<name>
    SHA256SUMS              of every member before it, in the usual format (`sha256sum -c` reads it)

Reading is bounded and writes nothing to disk. Raises ArchiveError.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from services.claims.limits import EVIDENCE
from services.claims.schemas import EvidenceRecord

SUMS = "SHA256SUMS"
Fetch = Callable[[str, str], bytes]
"""Evidence id and log name -> bytes."""


class ArchiveError(ValueError):
    """The file is not an archive of evidence, or cannot be written."""


def write(path: Path, records: Iterable[EvidenceRecord], fetch: Fetch) -> list[str]:
    """Write an archive that must not exist yet; returns the ids. It appears whole or not at all."""
    if path.exists():
        raise ArchiveError(f"{path} exists and is not overwritten; choose another name")
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with partial.open("xb") as file:
            ids = _write(file, records, fetch)
            file.flush()
            os.fsync(file.fileno())
        os.link(partial, path)
    except FileExistsError as error:
        raise ArchiveError(f"{path} exists and is not overwritten; choose another name") from error
    finally:
        partial.unlink(missing_ok=True)
    return ids


def _write(file: IO[bytes], records: Iterable[EvidenceRecord], fetch: Fetch) -> list[str]:
    sums, ids = [], []
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for record in sorted(records, key=lambda record: record.manifest.id):
            name = record.manifest.id
            members = {f"{name}/record.json": (record.model_dump_json(indent=2) + "\n").encode()}
            for log in record.manifest.logs:
                members[f"{name}/logs/{log.name}"] = fetch(name, log.name)
            for member, data in members.items():
                _add(tar, member, data, record.filed_at.timestamp())
                sums.append(f"{hashlib.sha256(data).hexdigest()}  {member}\n")
            ids.append(name)
        _add(tar, SUMS, "".join(sums).encode(), 0)
    return ids


def _add(tar: tarfile.TarFile, name: str, data: bytes, moment: float) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = len(data), int(moment), 0o444
    tar.addfile(info, io.BytesIO(data))


def records(path: Path) -> list[EvidenceRecord]:
    """The records of an archive, unchecked (see `faults`)."""
    found = []
    for name, file in _members(path):
        if name.endswith("/record.json"):
            found.append(_record(path, name, file.read(EVIDENCE.manifest_bytes * 4)))
    return found


def faults(path: Path) -> list[str]:
    """What does not hold in an archive: members that changed, are missing or are not named; empty when all is well."""
    hashes: dict[str, str] = {}
    known: list[EvidenceRecord] = []
    sums = b""
    for name, file in _members(path):
        if name == SUMS:
            sums = file.read()
        elif name.endswith("/record.json"):
            data = file.read(EVIDENCE.manifest_bytes * 4)
            hashes[name] = hashlib.sha256(data).hexdigest()
            known.append(_record(path, name, data))
        else:
            hashes[name] = _hash(file)
    return [*_sum_faults(sums, hashes), *(fault for record in known for fault in _record_faults(record, hashes))]


def _sum_faults(sums: bytes, hashes: dict[str, str]) -> Iterator[str]:
    if not sums:
        yield f"the archive lacks {SUMS}"
    named = {name: digest for digest, _, name in (line.partition("  ") for line in sums.decode().splitlines())}
    for name in sorted(named.keys() | hashes.keys()):
        if name not in hashes:
            yield f"{name} is missing"
        elif named.get(name) != hashes[name]:
            yield f"{name} hashes to {hashes[name]}, {SUMS} says {named.get(name, 'nothing of it')}"


def _record_faults(record: EvidenceRecord, hashes: dict[str, str]) -> Iterator[str]:
    manifest = record.manifest
    if manifest.digest() != record.digest:
        yield f"{manifest.id}: the manifest hashes to {manifest.digest()}, filed was {record.digest}"
    for log in manifest.logs:
        if hashes.get(f"{manifest.id}/logs/{log.name}") != log.sha256:
            yield f"{manifest.id}: log {log.name} is not the one that was filed"


def _members(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    try:
        with tarfile.open(path, mode="r|") as tar:
            for count, info in enumerate(tar):
                if count >= EVIDENCE.archive_members or info.size > EVIDENCE.log_bytes or not info.isreg():
                    raise ArchiveError(f"{path}: member {info.name!r} has no place in an archive of evidence")
                file = tar.extractfile(info)
                assert file is not None, "a regular file has content"
                yield info.name, file
    except (tarfile.TarError, EOFError, UnicodeDecodeError) as error:
        raise ArchiveError(f"{path} is not a whole tar archive ({error}); export it again") from error


def _record(path: Path, name: str, data: bytes) -> EvidenceRecord:
    try:
        return EvidenceRecord.model_validate_json(data)
    except ValidationError as error:
        raise ArchiveError(f"{path}: {name} is not a record of evidence ({error.error_count()} faults)") from error


def _hash(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while block := file.read(EVIDENCE.block_bytes):
        digest.update(block)
    return digest.hexdigest()
