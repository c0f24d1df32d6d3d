"""A bundle as a DDI artifact: one file with the hashes that clients ask for, computed once."""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePosixPath

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from services.kit.problems import NotFound
from services.releases import bundles, service
from services.releases.models import BundleRow, DdiArtifact
from services.releases.tuf_repository import UpdateRepository, target_key

CHUNK = 1 << 20


def artifact_of(session: Session, digest: str) -> DdiArtifact:
    """The artifact of a bundle, made on first use."""
    query = select(DdiArtifact).where(DdiArtifact.digest == digest)
    known = session.scalars(query).first()
    if known is not None:
        return known
    bundle = bundles.find(session, digest)
    path = _file(bundle)
    sums = {name: hashlib.new(name, usedforsecurity=False) for name in ("sha1", "md5", "sha256")}
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            for one in sums.values():
                one.update(chunk)
    values = {name: one.hexdigest() for name, one in sums.items()}
    row = {
        "digest": digest,
        "filename": f"{digest[:16]}{PurePosixPath(bundle.target_path).suffix}",
        "size": bundle.length,
        **values,
    }
    session.execute(insert(DdiArtifact).values(**row).on_conflict_do_nothing())
    return session.scalars(query).one()


def by_module(session: Session, module_id: int) -> DdiArtifact:
    """The artifact of a software module; raises NotFound."""
    found = session.get(DdiArtifact, module_id) if module_id < 2**31 else None
    if found is None:
        raise NotFound(f"there is no software module {module_id}")
    return found


def file_of(session: Session, module_id: int, filename: str) -> tuple[DdiArtifact, Path]:
    """A module's file; raises NotFound."""
    found = by_module(session, module_id)
    if found.filename != filename:
        raise NotFound(f"software module {module_id} has no artifact {filename[:100]!r}")
    return found, _file(bundles.find(session, found.digest))


def _file(bundle: BundleRow) -> Path:
    """The bytes that devices fetch. A sealed bundle stays sealed: its key goes to our own agent only."""
    path = bundle.target_path
    signed = UpdateRepository(service.objects(), service.keys()).target(path)
    if signed is None:
        raise NotFound(f"the update repository has no target {path}")
    return service.objects().path(target_key(path, signed.hashes["sha256"]))
