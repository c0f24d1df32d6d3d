"""The bundles registry: only whole, gated bundles come in, and coming in means being signed into the repository.

The target is published before the row is committed: a crash in between leaves a signed target that no rollout names
yet, and the repeated registration finds it there.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from contracts.bundle import Bundle, BundleError
from contracts.bundle.chunks import Chunks
from contracts.wire.builds import Build, BuildState
from contracts.wire.releases import BundleRecord, BundleRegistration, Provenance
from services.kit.audit import record
from services.kit.auth import Subject
from services.kit.clients import ServiceClient, ServiceRefused, ServiceUnreachable
from services.releases import service
from services.releases.deltas import add_deltas
from services.releases.errors import BadBundle, BuildsUnavailable, KeysUnusable, NotReleasable, UnknownBundle
from services.releases.keys import KeyUnusable
from services.releases.limits import DELTAS
from services.releases.models import BundleRow
from services.releases.sealing import Sealing, is_sealed


def register_build(session: Session, subject: Subject, builds: ServiceClient, request: BundleRegistration) -> BundleRow:
    """Fetch a passed build's bundle, check it against the build's digest, and register it."""
    build_id = request.build_id
    try:
        build = Build.model_validate(builds.get(f"/v1/builds/{build_id}"))
        if build.state is not BuildState.PASSED:
            raise NotReleasable(f"build {build_id} is {build.state.value}; only a passed build may be released")
        data = builds.request("GET", f"/v1/builds/{build_id}/bundle").content
    except ServiceRefused as error:
        if error.status == 404:
            raise UnknownBundle(f"the builds service knows no build {build_id}") from error
        raise BuildsUnavailable(str(error)) from error
    except ServiceUnreachable as error:
        raise BuildsUnavailable(str(error)) from error
    given = request.provenance
    known = given.model_copy(update={"gate_report": given.gate_report or f"/builds/v1/builds/{build.id}"})
    return register(
        session, subject, data, request.notes, build_id=build_id, expected_digest=build.digest, provenance=known
    )


def register(
    session: Session,
    subject: Subject,
    data: bytes,
    notes: str,
    *,
    build_id: str = "",
    expected_digest: str = "",
    provenance: Provenance | None = None,
) -> BundleRow:
    """Check the bytes, publish them as a target and note them; the same bundle again changes nothing."""
    bundle, digest = _opened(data)
    if expected_digest and digest != expected_digest:
        raise BadBundle(
            f"the bundle has digest {digest[:16]}..., its build says {expected_digest[:16]}...; build again"
        )
    known = session.get(BundleRow, digest)
    if known is not None:
        return known
    manifest = bundle.manifest
    custom: dict[str, str | int] = {
        "release_version": manifest.release_version,
        "security_epoch": manifest.security_epoch,
        "build_id": manifest.build_id,
    }
    row = BundleRow(
        digest=digest,
        release_version=manifest.release_version,
        security_epoch=manifest.security_epoch,
        length=len(data),
        build_id=build_id or manifest.build_id,
        target_path=f"bundles/{digest}.elb",
        targets=list(bundle.targets),
        notes=notes,
        provenance=(provenance or Provenance()).model_dump(mode="json"),
        created_by=str(subject),
        created=service.clock().now(),
    )
    try:
        _publish(session, row, data, custom)
    except KeyUnusable as error:
        raise KeysUnusable(str(error)) from error
    session.add(row)
    detail = {**custom, "build": row.build_id, "sealed": is_sealed(row), **row.provenance}
    record(session, subject, "bundle.registered", f"bundle:{digest}", detail)
    session.flush()
    return row


def find(session: Session, digest: str) -> BundleRow:
    """The bundle; raises UnknownBundle."""
    row = session.get(BundleRow, digest)
    if row is None:
        raise UnknownBundle(f"no bundle has the digest {digest[:16]}...; register its build first")
    return row


def revoked_count(session: Session) -> int:
    """How many bundles are forbidden."""
    return session.scalar(select(func.count()).where(BundleRow.revoked)) or 0


def view(row: BundleRow) -> BundleRecord:
    """A bundle as the API shows it."""
    return BundleRecord(
        digest=row.digest,
        release_version=row.release_version,
        security_epoch=row.security_epoch,
        length=row.length,
        build_id=row.build_id,
        target_path=row.target_path,
        targets=tuple(row.targets),
        notes=row.notes,
        provenance=Provenance.model_validate(row.provenance),
        created_by=row.created_by,
        revoked=row.revoked,
        created=row.created,
    )


def _publish(session: Session, row: BundleRow, data: bytes, custom: dict[str, str | int]) -> None:
    """Put the bundle, sealed where the platform seals, and the deltas to it into the repository."""
    repository = service.writable_repository(session)
    sealing = Sealing(session, service.wrapping_keys())
    body = data
    if service.seals_bundles():
        sealed = sealing.bundle(row, data)
        row.target_path, row.length, body = sealed.path, len(sealed.data), sealed.data
    repository.add_target(row.target_path, body, {**custom, **Chunks.of(body).custom()})
    add_deltas(repository, sealing, _bases(session), row, data)


def _bases(session: Session) -> list[BundleRow]:
    """The bundles that most devices will come from: those registered last."""
    newest = select(BundleRow).order_by(BundleRow.created.desc(), BundleRow.digest).limit(DELTAS.bases)
    return list(session.scalars(newest))


def _opened(data: bytes) -> tuple[Bundle, str]:
    with tempfile.TemporaryDirectory(prefix="edgeloop-bundle-") as folder:
        path = Path(folder) / "bundle.elb"
        path.write_bytes(data)
        try:
            bundle = Bundle.open(path)
        except BundleError as error:
            raise BadBundle(str(error)) from error
        if not bundle.targets:
            raise BadBundle("the bundle holds no program for any NPU; compile it for at least one target")
        return bundle, bundle.digest
