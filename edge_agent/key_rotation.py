"""A device takes a new key: it proves the old one and the new one, and only then forgets the old one.

The new key lies beside the old one until the platform has it, so a power cut or a lost answer at any point is followed
by the same request, which changes nothing where it was heard already.
"""

from __future__ import annotations

import base64
import logging
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from contracts.state import public_text
from contracts.wire.enrolment import DeviceKeyRotated, DeviceKeyRotation, rotation_proof
from edge_agent.disk import Disk
from edge_agent.enrol import KEY_FILE, PRIVATE, Identity, device_key, stored_key
from edge_agent.errors import EnrolmentError, PlatformError, Refused, TrustError
from edge_agent.limits import LIMITS
from edge_agent.transport import Transport

log = logging.getLogger(__name__)
NEXT_FILE = "device.next.key"
ROUTE = "/releases/v1/device-keys/rotations"


def rotate_key(folder: Path, transport: Transport, identity: Identity, disk: Disk) -> str:
    """Take a new key; returns its public half as text. Raises EnrolmentError, PlatformError: the old one stays then."""
    old, new = device_key(folder, disk), stored_key(folder / NEXT_FILE, disk)
    if _public(old) == _public(new):  # the power went before the last step
        disk.remove(folder / NEXT_FILE)
        return _public(new)
    try:
        answer = transport.post(ROUTE, _request(identity.device_id, old, new).model_dump_json().encode())
    except Refused as error:
        if error.status == 403:
            disk.remove(folder / NEXT_FILE)
        raise EnrolmentError(f"the platform refuses the new key ({error.status}); the old one stays") from error
    try:
        taken = DeviceKeyRotated.model_validate_json(answer.body)
    except ValueError as error:
        raise TrustError("the platform's answer about the new key is malformed; ask again") from error
    if taken.public_key != _public(new):
        raise TrustError("the platform says that it has another key; ask an operator")
    disk.replace(folder / KEY_FILE, disk.read(folder / NEXT_FILE, LIMITS.identity_bytes), PRIVATE)
    disk.remove(folder / NEXT_FILE)
    return _public(new)


def finish_rotation(folder: Path, transport: Transport, identity: Identity, disk: Disk) -> None:
    """Go on with a rotation that was cut short, if any; what goes wrong is logged and waits for the next start."""
    if not (folder / NEXT_FILE).exists():
        return
    try:
        rotate_key(folder, transport, identity, disk)
    except (EnrolmentError, PlatformError, OSError) as error:
        log.warning("the rotation of the device's key is not finished: %s", error)


def _request(device_id: str, old: Ed25519PrivateKey, new: Ed25519PrivateKey) -> DeviceKeyRotation:
    proof = rotation_proof(device_id, _public(old), _public(new))
    return DeviceKeyRotation(
        public_key=_public(new),
        by_old=base64.b64encode(old.sign(proof)).decode(),
        by_new=base64.b64encode(new.sign(proof)).decode(),
    )


def _public(key: Ed25519PrivateKey) -> str:
    return public_text(key.public_key())
