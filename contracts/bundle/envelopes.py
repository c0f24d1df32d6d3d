"""A content key on its way to one device: HPKE (RFC 9180, base mode) with X25519, HKDF-SHA256 and AES-256-GCM.

Only the holder of the device's private key opens an envelope. It is bound by HPKE's `info` to the purpose, the device
class and the very head of the sealed file (digest, classes, epoch, nonce), so an envelope for another bundle, class or
epoch does not open. It proves nothing of its sender: the file's own signature and the bundle's digest do that.
"""

from __future__ import annotations

import hashlib

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from contracts.bundle.sealed import KEY_BYTES

CONTENT_KEY = b"edgeloop-content-key-1"
ENVELOPE_BYTES = 32 + KEY_BYTES + 16
_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)


class EnvelopeError(ValueError):
    """Made for another device, bundle, class or epoch, or damaged."""


def binding(head: bytes, device_class: str) -> bytes:
    """What an envelope of a content key is bound to; `head` are the file's bytes before the ciphertext."""
    return b"\0".join((CONTENT_KEY, device_class.encode(), hashlib.sha384(head).digest()))


def close_envelope(content_key: bytes, device_key: bytes, bound_to: bytes) -> bytes:
    """Return the envelope (80 bytes for a content key) for the raw X25519 `device_key`. Raises EnvelopeError."""
    try:
        public = X25519PublicKey.from_public_bytes(device_key)
        return _SUITE.encrypt(content_key, public, info=bound_to)
    except ValueError as error:
        raise EnvelopeError("not an X25519 public key of 32 bytes") from error


def open_envelope(envelope: bytes, private: X25519PrivateKey, bound_to: bytes) -> bytes:
    """Return the content key. Raises EnvelopeError."""
    if len(envelope) != ENVELOPE_BYTES:
        raise EnvelopeError(f"{len(envelope)} bytes, an envelope has {ENVELOPE_BYTES}")
    try:
        key = _SUITE.decrypt(envelope, private, info=bound_to)
    except (InvalidTag, ValueError) as error:
        raise EnvelopeError("made for another device, bundle, class or epoch") from error
    return bytes(key)
