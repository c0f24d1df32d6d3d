"""A bundle as a DDI artifact: one file with the hashes that clients ask for, computed once.

It is the bundle itself, or the image (.swu) that an operator wrapped around it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePosixPath

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from services.kit.audit import record
from services.kit.auth import Subject
from services.kit.problems import NotFound
from services.kit.storage import ObjectMissing
from services.releases import bundles, service
from services.releases.ddi.images import BadImage, check_image
from services.releases.ddi.states import LIVE
from services.releases.errors import BadBundle, NotReleasable
from services.releases.models import BundleRow, DdiAction, DdiArtifact
from services.releases.tuf_repository import UpdateRepository, target_key

CHUNK = 1 << 20
IMAGE = ".swu"
HASHES = ("sha1", "md5", "sha256")


def artifact_of(session: Session, digest: str) -> DdiArtifact:
    """The artifact of a bundle, made on first use."""
    query = select(DdiArtifact).where(DdiArtifact.digest == digest)
    known = session.scalars(query).first()
    if known is not None:
        return known
    bundle = bundles.find(session, digest)
    path = _file(bundle)
    sums = {name: hashlib.new(name, usedforsecurity=False) for name in HASHES}
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
    if not filename.endswith(IMAGE):
        return found, _file(bundles.find(session, found.digest))
    try:
        return found, service.objects().path(_key(found.sha256))
    except ObjectMissing as error:
        raise NotFound(f"the image of bundle {found.digest[:16]}... is gone; hand it in again") from error


def use_image(session: Session, subject: Subject, digest: str, data: bytes) -> DdiArtifact:
    """Offer an image that holds the bundle instead of the bundle. Raises BadBundle, NotReleasable."""
    found = artifact_of(session, digest)
    try:
        check_image(data, _file(bundles.find(session, digest)).read_bytes())
    except BadImage as error:
        raise BadBundle(str(error)) from error
    sums = {name: hashlib.new(name, data, usedforsecurity=False).hexdigest() for name in HASHES}
    if sums["sha256"] == found.sha256:
        return found
    busy = select(DdiAction.id).where(DdiAction.digest == digest, DdiAction.state.in_(LIVE)).limit(1)
    if session.scalars(busy).first() is not None:
        raise NotReleasable("devices are installing this bundle now; hand its image in before it is rolled out")
    service.objects().put(_key(sums["sha256"]), data)
    found.filename, found.size = f"{digest[:16]}{IMAGE}", len(data)
    found.sha1, found.md5, found.sha256 = (sums[name] for name in HASHES)
    record(session, subject, "ddi.image", f"bundle:{digest}", {"sha256": sums["sha256"], "size": len(data)})
    return found


def _key(sha256: str) -> str:
    return f"ddi/{sha256}{IMAGE}"


def _file(bundle: BundleRow) -> Path:
    """The bytes that devices fetch. A sealed bundle stays sealed: its key goes to our own agent only."""
    path = bundle.target_path
    signed = UpdateRepository(service.objects(), service.keys()).target(path)
    if signed is None:
        raise NotFound(f"the update repository has no target {path}")
    return service.objects().path(target_key(path, signed.hashes["sha256"]))
