"""A device's own key, and how it takes a new one.

Invariants: a new key needs proof of the old one and of itself; a key that was given up, by whichever device, is never
accepted again; a repeat (the answer was lost) changes nothing.
"""

from __future__ import annotations

import base64
import binascii

import structlog
from cryptography.exceptions import InvalidSignature
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from contracts.state import public_key
from contracts.wire.enrolment import DeviceKeyRotated, DeviceKeyRotation, rotation_proof
from services.kit.audit import record
from services.kit.auth import Subject
from services.releases.errors import DeviceKeyRefused
from services.releases.models import Device, RetiredDeviceKey

log = structlog.get_logger(__name__)


def rotate(session: Session, subject: Subject, request: DeviceKeyRotation) -> DeviceKeyRotated:
    """Let the device's new key take the place of its old one; raises DeviceKeyRefused."""
    lock_key(session, request.public_key)
    device = session.get(Device, subject.id, with_for_update=True)
    if device is None:
        raise _refused(subject.id, "unknown device")
    duplicate = device.public_key == request.public_key
    old = _last_retired(session, device.id) if duplicate else device.public_key
    proof = rotation_proof(device.id, old, request.public_key)
    if not (old and signed(old, request.by_old, proof) and signed(request.public_key, request.by_new, proof)):
        raise _refused(device.id, "a signature is not by the key that it should be")
    if duplicate:
        return DeviceKeyRotated(device_id=device.id, public_key=device.public_key, duplicate=True)
    if is_taken(session, request.public_key):
        raise _refused(device.id, "the new key was used before")
    session.add(RetiredDeviceKey(public_key=old, device_id=device.id))
    device.public_key = request.public_key
    record(session, subject, "device-key.rotated", f"device:{device.id}", {"public_key": request.public_key})
    return DeviceKeyRotated(device_id=device.id, public_key=device.public_key)


def lock_key(session: Session, key: str) -> None:
    """Requests about one key come one by one until the transaction ends."""
    session.execute(text("SELECT pg_advisory_xact_lock(hashtext('releases.device-key'), hashtext(:key))"), {"key": key})


def is_taken(session: Session, key: str) -> bool:
    """Whether a device has this key, or had it."""
    has = session.scalar(select(Device.id).where(Device.public_key == key))
    return has is not None or session.get(RetiredDeviceKey, key) is not None


def signed(key: str, signature: str, data: bytes) -> bool:
    """Whether `key` signed `data`; text that is no key or no signature has not."""
    try:
        public_key(key).verify(base64.b64decode(signature, validate=True), data)
    except (InvalidSignature, ValueError, binascii.Error):
        return False
    return True


def _last_retired(session: Session, device_id: str) -> str:
    query = select(RetiredDeviceKey.public_key).where(RetiredDeviceKey.device_id == device_id)
    return session.scalars(query.order_by(RetiredDeviceKey.retired_at.desc()).limit(1)).first() or ""


def _refused(device_id: str, why: str) -> DeviceKeyRefused:
    log.warning("device_key_refused", device=device_id, why=why)
    return DeviceKeyRefused("the new key is not accepted; make another one, and sign with the key that joined")
