"""What operators do with keys: rotate, revoke, look. Every act is one transaction with an audit entry, and no secret
in it.
"""

from __future__ import annotations

from sqlalchemy import text
from sqlalchemy.orm import Session

from contracts.wire.keys import ContentKeys, KeyGeneration, KeyRevocation, SigningKeyRotation
from services.kit.audit import record
from services.kit.auth import Subject
from services.kit.problems import MalformedPayload, NotFound
from services.releases import bundles, service, state_keys
from services.releases.errors import WrongState
from services.releases.keys import STATE
from services.releases.models import Device
from services.releases.sealing import Sealing


def status(session: Session, moved: int = 0) -> ContentKeys:
    """Generations, oldest first: those at hand, and those that wrap something."""
    keys, counts = service.wrapping_keys(), Sealing(session, service.wrapping_keys()).counts()
    known = sorted({*keys.generations, *counts})
    generations = tuple(
        KeyGeneration(generation=one, content_keys=counts.get(one, 0), present=one in keys.generations) for one in known
    )
    newest = max(keys.generations, default=0)
    return ContentKeys(sealing=service.seals_bundles(), newest=newest, generations=generations, moved=moved)


def rotate(session: Session, subject: Subject, reason: str) -> ContentKeys:
    """The next generation wraps everything. Old generations stay at hand until they are revoked."""
    _lock(session)
    keys = service.wrapping_keys()
    generation = keys.create()
    moved = Sealing(session, keys).rewrap()
    detail = {"reason": reason, "generation": generation, "moved": moved}
    record(session, subject, "content-keys.rotated", f"generation:{generation}", detail)
    return status(session, moved)


def revoke(session: Session, subject: Subject, request: KeyRevocation) -> ContentKeys:
    """Raises WrongState, UnknownBundle, NotFound, MalformedPayload."""
    named = [one for one in (request.generation, request.digest, request.device_id) if one is not None]
    if len(named) != 1:
        raise MalformedPayload("name exactly one of generation, digest and device_id")
    _lock(session)
    moved = 0
    if request.generation is not None:
        _destroy(session, request.generation)
        what = f"generation:{request.generation}"
    elif request.digest is not None:
        bundle = bundles.find(session, request.digest)
        moved = Sealing(session, service.wrapping_keys()).forget(bundle.digest)
        what = f"bundle:{bundle.digest}"
    else:
        _bar(session, str(request.device_id), request.lift)
        what = f"device:{request.device_id}"
    action = "content-keys.allowed" if request.lift else "content-keys.revoked"
    record(session, subject, action, what, {"reason": request.reason, "keys": moved})
    return status(session, moved)


def rotate_signing_key(session: Session, subject: Subject, request: SigningKeyRotation) -> None:
    """Devices that trust an older root follow the chain of roots; for `state`, the list of keys.

    Raises WrongState, KeyUnusable.
    """
    role, reason = request.role, request.reason
    if role == STATE:
        state_keys.rotate(session, subject, request.overlap_s, reason)
        return
    repository = service.writable_repository(session)
    version = repository.rotate(role)
    record(session, subject, "signing-key.rotated", f"role:{role}", {"reason": reason, "root_version": version})


def _destroy(session: Session, generation: int) -> None:
    keys = service.wrapping_keys()
    if generation not in keys.generations:
        raise NotFound(f"there is no content wrapping key of generation {generation}")
    if generation == keys.generations[-1]:
        raise WrongState(f"generation {generation} is the newest one; rotate first")
    wrapped = Sealing(session, keys).counts().get(generation, 0)
    if wrapped:
        raise WrongState(f"generation {generation} still wraps {wrapped} content keys; rotate first")
    keys.destroy(generation)


def _bar(session: Session, device_id: str, lift: bool) -> None:
    device = session.get(Device, device_id, with_for_update=True)
    if device is None:
        raise NotFound(f"there is no device {device_id}")
    device.keys_barred = not lift
    if lift:
        device.sealing_key = None


def _lock(session: Session) -> None:
    """One ceremony at a time, until the transaction ends; and no bundle is sealed meanwhile."""
    session.execute(text("SELECT pg_advisory_xact_lock(hashtext('releases.repository'))"))
