"""Hands content keys to devices that may have them, and to nobody else.

A device may have the key of a bundle when it proved its identity key, asks with the sealing key that was pinned at its
first request, was not barred, has a class that the bundle was sealed for, and is offered that bundle by the newest
state document. Every no looks the same from outside; the log says which.
"""

from __future__ import annotations

import base64
import binascii

import structlog
from cryptography.exceptions import InvalidSignature
from sqlalchemy.orm import Session

from contracts.bundle.envelopes import EnvelopeError, binding, close_envelope
from contracts.state import bucket, public_key
from contracts.wire.keys import BundleKey, BundleKeyRequest, signed_request
from services.releases import service, state_document
from services.releases.errors import KeyRefused
from services.releases.models import BundleRow, ContentKey, Device
from services.releases.sealing import Sealing

log = structlog.get_logger(__name__)


def hand_out(session: Session, device_id: str, request: BundleKeyRequest) -> BundleKey:
    """The content key of a sealed target for this device; raises KeyRefused."""
    device = session.get(Device, device_id, with_for_update={"key_share": True})
    if device is None:
        raise _refused(device_id, request, "unknown device")
    sealing_key = _proved(device, request)
    if device.keys_barred:
        raise _refused(device_id, request, "the device is barred from keys")
    if device.sealing_key is None:
        device.sealing_key = request.sealing_key
        log.info("sealing_key_pinned", device=device_id)
    elif device.sealing_key != request.sealing_key:
        raise _refused(device_id, request, "another sealing key than the pinned one")
    row = session.get(ContentKey, (request.path, device.device_class))
    bundle = None if row is None else session.get(BundleRow, row.digest)
    if row is None or bundle is None or bundle.revoked:
        raise _refused(device_id, request, "no key for this class, or the bundle is revoked")
    if not _offered(session, row.digest, device_id):
        raise _refused(device_id, request, "the bundle is not offered to this device")
    content_key = Sealing(session, service.wrapping_keys()).content_key(row)
    try:
        envelope = close_envelope(content_key, sealing_key, binding(row.head, device.device_class))
    except EnvelopeError as error:
        raise _refused(device_id, request, "its sealing key is not one") from error
    text = base64.b64encode(envelope).decode()
    return BundleKey(envelope=text, device_class=device.device_class, generation=row.generation)


def _proved(device: Device, request: BundleKeyRequest) -> bytes:
    """The raw sealing key, after the device's identity key vouched for it."""
    try:
        sealing_key = base64.b64decode(request.sealing_key, validate=True)
        signature = base64.b64decode(request.signature, validate=True)
        public_key(device.public_key).verify(signature, signed_request(request.path, sealing_key))
    except (InvalidSignature, ValueError, binascii.Error) as error:
        raise _refused(device.id, request, "the signature is not the device's") from error
    if len(sealing_key) != 32:
        raise _refused(device.id, request, "its sealing key has not 32 bytes")
    return sealing_key


def _offered(session: Session, digest: str, device_id: str) -> bool:
    """Whether the platform offers this bundle to this device now; its tags may be newer on the device, so they do not
    count here.
    """
    baseline, rollouts = state_document.offers(session)
    if baseline is not None and baseline.digest == digest:
        return True
    named = (entry for entry in rollouts if entry.target.digest == digest)
    return any(bucket(entry.salt, device_id) < entry.basis_points for entry in named)


def _refused(device_id: str, request: BundleKeyRequest, why: str) -> KeyRefused:
    log.warning("bundle_key_refused", device=device_id, path=request.path, why=why)
    return KeyRefused("no key for this bundle and device; ask an operator whether keys were revoked")
