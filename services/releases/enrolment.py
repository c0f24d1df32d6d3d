"""How a device joins: an operator's token and the device's own public key against an identity and the roots of trust.

Invariants: a token is kept as a hash and lets in no more devices than it says, also when they come at once; the
same key again is the same device and uses nothing up (a device that lost the answer asks once more); once it
has spoken, that takes proof of the key.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import UTC, datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from contracts.state import public_key, public_text
from contracts.wire.enrolment import (
    EnrolmentRequest,
    EnrolmentResponse,
    EnrolmentTokenRequest,
    enrolment_proof,
)
from services.kit.audit import record
from services.kit.auth import Subject, issue_token, revoke
from services.kit.problems import FieldError, MalformedPayload
from services.releases import device_keys, service
from services.releases.errors import EnrolmentRefused
from services.releases.models import Device, EnrolmentToken, RetiredDeviceKey
from services.releases.state_signers import verifiers


def make_token(session: Session, subject: Subject, request: EnrolmentTokenRequest) -> tuple[str, datetime]:
    """A new enrolment token in clear (this once) and when it ends."""
    token = secrets.token_urlsafe(32)
    expires = datetime.now(UTC) + timedelta(seconds=request.ttl_s)
    row = EnrolmentToken(token_hash=_hash(token), uses_left=request.uses, expires_at=expires, created_by=str(subject))
    session.add(row)
    record(
        session,
        subject,
        "enrolment-token.created",
        "enrolment",
        {"uses": request.uses, "ttl_s": request.ttl_s},
    )
    return token, expires


def enrol(session: Session, request: EnrolmentRequest) -> EnrolmentResponse:
    """Let a device in; raises EnrolmentRefused without saying which check failed."""
    _check_key(request.public_key)
    device_keys.lock_key(session, request.public_key)
    condition = EnrolmentToken.token_hash == _hash(request.token)
    token = session.scalars(select(EnrolmentToken).where(condition).with_for_update()).first()
    known = session.scalars(select(Device).where(Device.public_key == request.public_key)).first()
    if token is None or token.expires_at <= datetime.now(UTC) or (known is None and token.uses_left < 1):
        raise _refused()
    if not _may_join(session, request, known):
        raise _refused()
    if known is None:
        token.uses_left -= 1
        device = _new_device(session, request)
    else:
        device = known
        revoke(session, "device", device.id)
    root = service.readable_repository(session).root().decode()
    state_key = public_text(verifiers(session)[0])
    access = issue_token(session, "device", device.id)
    return EnrolmentResponse(device_id=device.id, access_token=access, tuf_root=root, state_key=state_key)


def _may_join(session: Session, request: EnrolmentRequest, known: Device | None) -> bool:
    """A key that was given up joins no more, nor does a device that was revoked; one that has spoken proves its key."""
    if session.get(RetiredDeviceKey, request.public_key) is not None:
        return False
    proof = enrolment_proof(request.token, request.public_key)
    if request.proof is not None and not device_keys.signed(request.public_key, request.proof, proof):
        return False
    if known is None:
        return True
    return known.revoked_at is None and (request.proof is not None or known.last_feedback is None)


def _refused() -> EnrolmentRefused:
    return EnrolmentRefused("the enrolment token is wrong, used up or expired; ask an operator for a new one")


def _new_device(session: Session, request: EnrolmentRequest) -> Device:
    device = Device(
        id=secrets.token_hex(16),
        public_key=request.public_key,
        device_class=request.tags.device_class,
        tags=request.tags.model_dump(),
        agent_version=request.agent_version,
        running_digest=request.running_digest,
        enrolled=service.clock().now(),
    )
    session.add(device)
    session.flush()
    return device


def _check_key(text: str) -> None:
    try:
        public_key(text)
    except ValueError as error:
        detail = "not an Ed25519 public key: base64 of 32 bytes is expected"
        raise MalformedPayload(detail, errors=[FieldError("/public_key", detail)]) from error


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
