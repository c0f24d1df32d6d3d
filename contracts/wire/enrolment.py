"""How a device joins: a one-time token and a public key against an identity and the roots of trust."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from contracts.device import DeviceTags
from contracts.wire.base import Answer, Message

_ENROLMENT = b"edgeloop-enrolment-1"
_ROTATION = b"edgeloop-device-key-rotation-1"


Key = Annotated[str, StringConstraints(min_length=44, max_length=44)]
Signature = Annotated[str, StringConstraints(min_length=88, max_length=88)]


class EnrolmentRequest(Message):
    """Sent once. `public_key` is base64 of the raw 32-byte Ed25519 key.

    `proof`, by that key over token and key, shows that the sender has it. Agents before it sent none; a device that has
    spoken already is let in again only with it.
    """

    token: Annotated[str, StringConstraints(min_length=16, max_length=200)]
    public_key: Key
    tags: DeviceTags
    agent_version: Annotated[str, StringConstraints(max_length=32)] = "0"
    running_digest: Annotated[str, StringConstraints(max_length=96)] = ""
    proof: Signature | None = None


class EnrolmentResponse(Answer):
    """`tuf_root` is the trusted root.json as text; `state_key` base64 of the raw Ed25519 public key."""

    device_id: str
    access_token: str
    tuf_root: str
    state_key: str


class EnrolmentTokenRequest(Message):
    """An operator asks for a token that lets `uses` devices in for `ttl_s` seconds."""

    uses: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    ttl_s: Annotated[int, Field(ge=60, le=30 * 86_400)] = 86_400


class DeviceKeyRotation(Message):
    """A device takes a new key: both keys sign the device's identity with both of them. A repeat changes nothing."""

    public_key: Key
    by_old: Signature
    by_new: Signature


class DeviceKeyRotated(Answer):
    """The key that counts from now on. `duplicate`: it did already."""

    device_id: str
    public_key: str
    duplicate: bool = False


class DeviceRevocation(Message):
    """Take a device's right to speak: its tokens end, it gets no key, and joins no more. `lift` allows it to join."""

    lift: bool = False
    reason: Annotated[str, StringConstraints(min_length=1, max_length=500)]


class DeviceStanding(Answer):
    """Whether a device may speak. `tokens`: how many were ended."""

    device_id: str
    revoked: bool
    tokens: int = 0


def enrolment_proof(token: str, public_key: str) -> bytes:
    """The bytes that the joining device's key signs."""
    return b"\0".join((_ENROLMENT, token.encode(), public_key.encode()))


def rotation_proof(device_id: str, old: str, new: str) -> bytes:
    """The bytes that the old and the new key sign; keys as text."""
    return b"\0".join((_ROTATION, device_id.encode(), old.encode(), new.encode()))
