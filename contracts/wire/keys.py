"""How a device asks for the content key of a sealed bundle.

The first request enrols the sealing key of the device's trusted environment: the platform pins it, after it checked the
signature by the identity key that the device joined with. Another sealing key is refused until an operator allows it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field, StringConstraints

from contracts.wire.base import Answer, Digest, Identifier, Message

_CONTEXT = b"edgeloop-bundle-key-request-1"


class BundleKeyRequest(Message):
    """`path` of the sealed target; base64 of the raw X25519 key of 32 bytes, and of the Ed25519 signature over both."""

    path: Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9._/-]{1,200}$")]
    sealing_key: Annotated[str, StringConstraints(min_length=44, max_length=44)]
    signature: Annotated[str, StringConstraints(min_length=88, max_length=88)]


class BundleKey(Answer):
    """`envelope`: base64, 80 bytes, opened by this device's trusted environment only."""

    envelope: str
    device_class: str
    generation: Annotated[int, Field(ge=1)]


class KeyGeneration(Answer):
    """One generation of the master keys, and how many content keys it wraps."""

    generation: int
    content_keys: int
    present: bool


class ContentKeys(Answer):
    """How the platform seals bundles. `moved`: content keys that this request wrapped anew or gave up."""

    sealing: bool
    newest: int
    generations: tuple[KeyGeneration, ...]
    moved: int = 0


class KeyRevocation(Message):
    """Exactly one of: a master key generation that wraps nothing any more, a bundle whose keys nobody gets again, a
    device that gets no key (`lift` allows it again, and lets it enrol a new sealing key).
    """

    generation: Annotated[int, Field(ge=1, le=9_999)] | None = None
    digest: Digest | None = None
    device_id: Identifier | None = None
    lift: bool = False
    reason: Annotated[str, StringConstraints(min_length=1, max_length=500)]


class SigningKeyRotation(Message):
    """Replace the key of a role of the update repository, or that of the state document (`state`).

    `overlap_s`, for `state` only: how long the old key signs beside the new one. 0 ends it at once.
    """

    role: Annotated[str, StringConstraints(pattern="^(root|targets|snapshot|timestamp|state)$")]
    overlap_s: Annotated[int, Field(ge=0, le=365 * 86_400)] = 30 * 86_400
    reason: Annotated[str, StringConstraints(min_length=1, max_length=500)]


class StateKeyRecord(Answer):
    """A key of the state document: it signs, signs up to `until`, or has `ended` after the document of `last_epoch`."""

    public: str
    created: datetime
    until: datetime | None = None
    ended: datetime | None = None
    last_epoch: int | None = None
    signs: bool


class StateKeys(Answer):
    """The keys of the state document, oldest first, as the signed list of this `serial` tells devices."""

    serial: int
    keys: tuple[StateKeyRecord, ...]


class StateKeyRevocation(Message):
    """End a key of the state document now, whatever its overlap. `public`: the key, or how it begins."""

    public: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]{6,43}=?$")]
    reason: Annotated[str, StringConstraints(min_length=1, max_length=500)]


def signed_request(path: str, sealing_key: bytes) -> bytes:
    """The bytes that the device's identity key signs."""
    return b"\0".join((_CONTEXT, path.encode(), sealing_key))
