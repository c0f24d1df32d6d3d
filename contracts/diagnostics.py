"""A diagnostic package: what a device knows of itself, in one file that only the platform's security people open.

    ELG1: magic "ELG1", envelope (80 bytes, HPKE to the platform's diagnostics key), nonce (12), ciphertext and tag of
    the zlib-compressed JSON, AES-256-GCM with magic and envelope as associated data, then the signature (64 bytes,
    zeros when the trusted environment did not answer) over everything before it.

The content key is random and used once. Sizes are bounded on both sides, before anything is unpacked.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from contracts.bundle.envelopes import ENVELOPE_BYTES, EnvelopeError, close_envelope, open_envelope

MAGIC = b"ELG1"
MOST_PLAIN, MOST_FILE = 8 << 20, 2 << 20
SIGNATURE_BYTES, NONCE_BYTES = 64, 12
SIGNATURE_DOMAIN = b"edgeloop-tee-signature-1\0"
_BOUND = b"edgeloop-diagnostics-1"
_HEAD = len(MAGIC) + ENVELOPE_BYTES


class DiagnosticsError(ValueError):
    """Not a package, for another key, damaged, or too large."""


@dataclass(frozen=True)
class Package:
    """`body` is JSON; `signed_by` the Ed25519 key in hexadecimal that its device's trusted environment signed with, ""
    when it is not signed.
    """

    body: dict[str, Any]  # Any: JSON
    signed_by: str


def close_package(
    body: Mapping[str, object], platform_key: bytes, sign: Callable[[bytes], bytes] | None = None
) -> bytes:
    """Return the file. `platform_key` is the raw X25519 key; `sign` signs a digest of 48 bytes. Raises
    DiagnosticsError.
    """
    plain = json.dumps(body, separators=(",", ":")).encode()
    if len(plain) > MOST_PLAIN:
        raise DiagnosticsError(f"{len(plain)} bytes of diagnostics, at most {MOST_PLAIN} are allowed")
    key, nonce = AESGCM.generate_key(256), os.urandom(NONCE_BYTES)
    try:
        clear = MAGIC + close_envelope(key, platform_key, _BOUND)
    except EnvelopeError as error:
        raise DiagnosticsError(f"the platform's diagnostics key is {error}") from error
    file = clear + nonce + AESGCM(key).encrypt(nonce, zlib.compress(plain, 9), clear)
    if len(file) + SIGNATURE_BYTES > MOST_FILE:
        raise DiagnosticsError(f"a package of {len(file)} bytes, at most {MOST_FILE} are allowed")
    return file + (sign(_digest(file)) if sign else bytes(SIGNATURE_BYTES))


def open_package(data: bytes, private: X25519PrivateKey) -> Package:
    """Return the content. Raises DiagnosticsError."""
    if not _HEAD + NONCE_BYTES + SIGNATURE_BYTES < len(data) <= MOST_FILE or data[:4] != MAGIC:
        raise DiagnosticsError("not a diagnostic package")
    file, signature = data[:-SIGNATURE_BYTES], data[-SIGNATURE_BYTES:]
    clear, nonce = file[:_HEAD], file[_HEAD : _HEAD + NONCE_BYTES]
    try:
        key = open_envelope(clear[len(MAGIC) :], private, _BOUND)
        packed = AESGCM(key).decrypt(nonce, file[_HEAD + NONCE_BYTES :], clear)
    except (EnvelopeError, InvalidTag) as error:
        raise DiagnosticsError("made for another key, or damaged") from error
    body = _body(packed)
    return Package(body, _signer(body, file, signature))


def _body(packed: bytes) -> dict[str, Any]:  # Any: JSON
    reader = zlib.decompressobj()
    try:
        plain = reader.decompress(packed, MOST_PLAIN + 1)
        body = json.loads(plain) if len(plain) <= MOST_PLAIN and reader.eof else None
    except (zlib.error, ValueError, RecursionError) as error:
        raise DiagnosticsError("its content is not readable") from error
    if not isinstance(body, dict):
        raise DiagnosticsError("its content is too large, or not an object")
    return body


def _signer(body: Mapping[str, Any], file: bytes, signature: bytes) -> str:  # Any: JSON
    if not any(signature):
        return ""
    try:
        text = str(body["signing_key"])
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(text)).verify(signature, SIGNATURE_DOMAIN + _digest(file))
    except (KeyError, ValueError, InvalidSignature) as error:
        raise DiagnosticsError("its signature is not that of the device it names") from error
    return text


def _digest(file: bytes) -> bytes:
    return hashlib.sha384(file).digest()
