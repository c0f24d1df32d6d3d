"""The device state document: one small signed file that tells every device what to run.

It is the same for the whole fleet, so it can be cached and served as a static file: who belongs to a stage of
a rollout is decided on the device by a pure hash. The epoch only grows; a device refuses an older document.
What an entry needs a device to understand stands in its selector under `reads`: an agent that is too old for rules or
layers finds a tag there that it does not have, and passes the entry over instead of taking it by half.
The security epoch floor only grows too; a release version may go back, a security epoch never does.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from contracts.device import DeviceTags
from contracts.targeting import Facts, RuleError, facts_of, holds, parse
from contracts.wire.base import Digest

MAX_DOCUMENT_BYTES = 256 * 1024
BUCKETS = 10_000
MAX_ROLLOUTS = 64
MAX_REVOKED = 1_000
MAX_SIGNATURES = 4
READS = "reads"
READABLE = frozenset({"layer", "rule"})
"""What an entry may need beyond tags, as this code understands it."""


class StateError(Exception):
    """The document is not to be obeyed; the message says why. The last good document stays in force."""


class UnknownSigner(StateError):
    """No key that is trusted signed the document: it is forged, or the platform has a new key."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Target(_Model):
    """A bundle in the update repository."""

    path: Annotated[str, Field(pattern=r"^[a-zA-Z0-9._/-]{1,200}$")]
    digest: Digest
    length: Annotated[int, Field(ge=1)]
    release_version: str
    security_epoch: Annotated[int, Field(ge=0)]


class LayerSlice(_Model):
    """A part of a layer's buckets. Slices of one layer never overlap, so a device is in one of them at most."""

    salt: str
    low: Annotated[int, Field(ge=0, lt=BUCKETS)]
    high: Annotated[int, Field(gt=0, le=BUCKETS)]

    def holds(self, device_id: str) -> bool:
        """True when the device falls into this part of the layer."""
        return self.low <= bucket(self.salt, device_id) < self.high


class Audience(_Model):
    """Whom a rollout is for: tags that a device must have, a rule that must hold, a slice of a layer."""

    selector: dict[str, tuple[str, ...]] = {}
    rule: str = ""
    layer: LayerSlice | None = None

    def includes(self, device_id: str, facts: Facts) -> bool:
        """True when the device is meant, whatever the stage. A rule that cannot be read means nobody."""
        if not matches(self.selector, facts):
            return False
        if self.layer is not None and not self.layer.holds(device_id):
            return False
        try:
            return not self.rule or holds(parse(self.rule), facts)
        except RuleError:
            return False

    def guarded(self) -> dict[str, tuple[str, ...]]:
        """The selector with what a device must be able to read, for the document."""
        needs = [name for name, used in (("layer", self.layer), ("rule", self.rule)) if used]
        return {**self.selector, READS: tuple(needs)} if needs else dict(self.selector)


class RolloutEntry(Audience):
    """A rollout in progress: devices that are meant and whose bucket is below `basis_points` take it."""

    id: str
    target: Target
    salt: str
    basis_points: Annotated[int, Field(ge=0, le=BUCKETS)]


class DeviceState(_Model):
    """What the platform wants of every device. Times are real seconds since 1970."""

    epoch: Annotated[int, Field(ge=0)]
    issued: int
    expires: int
    killed: bool = False
    security_epoch_floor: Annotated[int, Field(ge=0)] = 0
    revoked: Annotated[tuple[Digest, ...], Field(max_length=MAX_REVOKED)] = ()
    baseline: Target | None = None
    rollouts: Annotated[tuple[RolloutEntry, ...], Field(max_length=MAX_ROLLOUTS)] = ()


def bucket(salt: str, device_id: str) -> int:
    """Place a device in one of 10,000 buckets. Pure: the same on server and device, new for every salt."""
    digest = hashlib.sha256(f"{salt}\x00{device_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % BUCKETS


def matches(selector: dict[str, tuple[str, ...]], facts: Facts) -> bool:
    """Tell whether facts satisfy a selector. An empty selector matches all, an unknown tag none."""
    return all(
        READABLE.issuperset(allowed) if name == READS else facts.get(name) in allowed
        for name, allowed in selector.items()
    )


def choose_target(state: DeviceState, device_id: str, tags: DeviceTags, agent_version: str = "") -> Target | None:
    """Decide what a device should run: the first rollout it belongs to, else the baseline, else nothing (None).

    Revoked bundles and bundles below the security epoch floor are never chosen.
    """
    facts = facts_of(tags, agent_version)
    candidates = [
        entry.target
        for entry in state.rollouts
        if bucket(entry.salt, device_id) < entry.basis_points and entry.includes(device_id, facts)
    ]
    if state.baseline is not None:
        candidates.append(state.baseline)
    for target in candidates:
        if target.digest not in state.revoked and target.security_epoch >= state.security_epoch_floor:
            return target
    return None


def sign_state(state: DeviceState, key: Ed25519PrivateKey, *others: Ed25519PrivateKey) -> bytes:
    """Wrap a document in a signed envelope. The same document and keys give the same bytes.

    `others` sign too, while one key follows another. The first one's signature stands where agents that know of one
    key look for it.
    """
    payload = json.dumps(state.model_dump(mode="json"), sort_keys=True, separators=(",", ":")).encode()
    envelope: dict[str, Any] = {"payload": base64.b64encode(payload).decode(), **_signature(payload, key)}
    if others:
        envelope["signatures"] = [_signature(payload, other) for other in others]
    return json.dumps(envelope, sort_keys=True, separators=(",", ":")).encode()


def verify_state(
    document: bytes, keys: Ed25519PublicKey | Sequence[Ed25519PublicKey], min_epoch: int, now: float | None = None
) -> DeviceState:
    """Check an envelope and return the document.

    One signature by one of `keys` is enough; what the envelope calls its keys is never trusted. `min_epoch` is the
    epoch of the last accepted document; `now` real seconds, None skips the expiry check.
    Raises UnknownSigner, and StateError when the bytes are too long, malformed, older or expired.
    """
    if len(document) > MAX_DOCUMENT_BYTES:
        raise StateError(f"state document has {len(document)} bytes, more than {MAX_DOCUMENT_BYTES}")
    trusted = [keys] if isinstance(keys, Ed25519PublicKey) else keys
    try:
        envelope = json.loads(document)
        payload = base64.b64decode(envelope["payload"], validate=True)
        if not any(_signed_by(payload, signature, key) for signature in _signatures(envelope) for key in trusted):
            raise UnknownSigner("state document is not signed by a trusted key")
        state = DeviceState.model_validate_json(payload)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ValidationError) as error:
        raise StateError(f"state document is malformed: {type(error).__name__}") from error
    if state.epoch < min_epoch:
        raise StateError(f"state document has epoch {state.epoch}, older than {min_epoch}")
    if now is not None and state.expires < now:
        raise StateError("state document has expired")
    return state


def _signature(payload: bytes, key: Ed25519PrivateKey) -> dict[str, str]:
    return {"signature": base64.b64encode(key.sign(payload)).decode(), "key": public_text(key.public_key())}


def _signatures(envelope: dict[str, Any]) -> Iterator[bytes]:  # Any: JSON that nobody checked yet
    """Every signature of an envelope. Raises what a malformed one makes the decoding raise."""
    further = envelope.get("signatures", [])
    if not isinstance(further, list) or len(further) >= MAX_SIGNATURES:
        raise ValueError("signatures is a short list")
    for one in (envelope, *further):
        yield base64.b64decode(one["signature"], validate=True)


def _signed_by(payload: bytes, signature: bytes, key: Ed25519PublicKey) -> bool:
    try:
        key.verify(signature, payload)
    except InvalidSignature:
        return False
    return True


def public_text(key: Ed25519PublicKey) -> str:
    """Return a public key as base64 of its 32 raw bytes."""
    return base64.b64encode(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()


def public_key(text: str) -> Ed25519PublicKey:
    """Undo `public_text`. Raises ValueError when the text is not 32 bytes in base64."""
    return Ed25519PublicKey.from_public_bytes(base64.b64decode(text, validate=True))
