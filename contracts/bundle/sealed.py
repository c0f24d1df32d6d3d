"""Sealed files: a bundle or a delta under AES-256-GCM, for the way to a device and for its disk.

    ELE1, little endian: magic "ELE1", length of the head u32, the head (canonical JSON), then ciphertext and 16-byte
    tag.

The head says what lies inside: kind, digest of the plain bundle, device classes, security epoch, length, nonce. All
of it, magic and length included, is the associated data, so none of it can be changed or exchanged.

Keys and nonces: `seal` makes a fresh random 256-bit key for every file and uses it for this one message; the nonce is
96 random bits and could not collide under a key that is used once. A stored file's key is derived from a secret of
the device and 256 random bits of the head (`salt`), which is the same rule. Nobody else encrypts.
"""

from __future__ import annotations

import json
import os
import re
import struct
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from contracts.bundle.limits import LIMITS

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAGIC = b"ELE1"
BUNDLE_SUFFIX, DELTA_SUFFIX = ".ele", ".ede"
KEY_BYTES, NONCE_BYTES, TAG_BYTES, SALT_BYTES = 32, 12, 16, 32
HEAD_BYTES = 4_096
MOST_BYTES = LIMITS.file_bytes + HEAD_BYTES + 8 + TAG_BYTES
MOST_CLASSES = 16
_PREFIX = struct.Struct("<4sI")
_DIGEST, _NONCE, _SALT = re.compile(r"^[0-9a-f]{96}$"), re.compile(r"^[0-9a-f]{24}$"), re.compile(r"^[0-9a-f]{64}$")
_CLASS = re.compile(r"^[a-zA-Z0-9._-]{1,40}$")
_REST_INFO = b"edgeloop-stored-bundle-1"


class SealedError(ValueError):
    """Not a sealed file, or not one that this key opens. The message never says more than where."""


class Kind(StrEnum):
    """What a sealed file holds."""

    BUNDLE = "bundle"
    DELTA = "delta"
    STORED = "stored"
    """A bundle on a device's disk, under a key that only this device can derive."""


@dataclass(frozen=True)
class Head:
    """What is said in clear, and authenticated. `digest` is the SHA-384 of the plain bundle; `base` that of the
    bundle that a delta starts from; `length` counts plain bytes.
    """

    kind: Kind
    digest: str
    classes: tuple[str, ...]
    security_epoch: int
    length: int
    base: str = ""
    nonce: str = field(default_factory=lambda: os.urandom(NONCE_BYTES).hex())
    salt: str = ""

    def to_bytes(self) -> bytes:
        """Magic, length and canonical JSON: the associated data."""
        body = json.dumps(asdict(self), sort_keys=True, separators=(",", ":")).encode()
        if len(body) > HEAD_BYTES:
            raise SealedError(f"a head of {len(body)} bytes, at most {HEAD_BYTES} are allowed")
        return _PREFIX.pack(MAGIC, len(body)) + body


def seal(head: Head, plain: Buffer) -> tuple[bytes, bytes]:
    """Return (content key, sealed file). The key was made for this file and has been used for the last time."""
    key = AESGCM.generate_key(256)
    return key, _encrypted(key, head, plain)


def unseal(key: bytes, sealed: Buffer) -> bytes:
    """Return the plain bytes of a file. Raises SealedError."""
    head, size = parse_head(sealed)
    try:
        plain = AESGCM(key).decrypt(bytes.fromhex(head.nonce), memoryview(sealed)[size:], memoryview(sealed)[:size])
    except (InvalidTag, ValueError) as error:
        raise SealedError("the key, the head or the ciphertext is not the one that was sealed") from error
    if len(plain) != head.length:
        raise SealedError(f"{len(plain)} bytes inside, the head says {head.length}")
    return plain


def store(secret: bytes, head: Head, plain: Buffer) -> bytes:
    """Return the file in which a device keeps a bundle; `secret` (32 bytes) never leaves that device."""
    return _encrypted(_stored_key(secret, head), head, plain)


def stored_head(of: Head, length: int) -> Head:
    """The head under which a device stores the bundle that `of` names."""
    salt = os.urandom(SALT_BYTES).hex()
    return Head(Kind.STORED, of.digest, of.classes, of.security_epoch, length, salt=salt)


def unstore(secret: bytes, stored: Buffer) -> bytes:
    """Return the plain bytes of a stored file. Raises SealedError."""
    head, _ = parse_head(stored)
    if head.kind is not Kind.STORED:
        raise SealedError(f"a {head.kind.value}, not a stored bundle")
    return unseal(_stored_key(secret, head), stored)


def parse_head(sealed: Buffer) -> tuple[Head, int]:
    """Return the head and where the ciphertext begins. Nothing is trusted yet. Raises SealedError."""
    view = memoryview(sealed)
    if not _PREFIX.size + TAG_BYTES < len(view) <= MOST_BYTES:
        raise SealedError(f"{len(view)} bytes, at most {MOST_BYTES} are allowed")
    magic, size = _PREFIX.unpack_from(view)
    if magic != MAGIC or size > HEAD_BYTES or len(view) < _PREFIX.size + size + TAG_BYTES:
        raise SealedError("does not begin with the head of a sealed file")
    end = _PREFIX.size + size
    try:
        head = _head(json.loads(bytes(view[_PREFIX.size : end])))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise SealedError("its head is not readable") from error
    if head.to_bytes() != bytes(view[:end]):
        raise SealedError("its head is not canonical")
    if len(view) - end != head.length + TAG_BYTES:
        raise SealedError(f"{len(view) - end} bytes of ciphertext, the head says {head.length + TAG_BYTES}")
    return head, end


def is_sealed(data: Buffer) -> bool:
    """Whether this begins like a sealed file."""
    return bytes(memoryview(data)[: len(MAGIC)]) == MAGIC


def sealed_delta_path(result: str, base: str) -> str:
    """Path of a sealed delta in the update repository, from the digests of both plain bundles."""
    return f"deltas/{result[:32]}-{base[:32]}{DELTA_SUFFIX}"


def _encrypted(key: bytes, head: Head, plain: Buffer) -> bytes:
    if len(memoryview(plain)) != head.length or head.length > LIMITS.file_bytes:
        raise SealedError(f"{len(memoryview(plain))} plain bytes, the head says {head.length}")
    clear = head.to_bytes()
    return clear + AESGCM(key).encrypt(bytes.fromhex(head.nonce), memoryview(plain), clear)


def _stored_key(secret: bytes, head: Head) -> bytes:
    derived = HKDF(SHA256(), KEY_BYTES, salt=bytes.fromhex(head.salt), info=_REST_INFO)
    return derived.derive(secret)


def _head(raw: dict[str, object]) -> Head:
    classes = raw["classes"]
    if not isinstance(classes, list) or not 0 < len(classes) <= MOST_CLASSES:
        raise ValueError("classes")
    kind = Kind(str(raw["kind"]))
    head = Head(
        kind=kind,
        digest=_text(raw["digest"], _DIGEST),
        classes=tuple(_text(one, _CLASS) for one in classes),
        security_epoch=_count(raw["security_epoch"], 2**31),
        length=_count(raw["length"], LIMITS.file_bytes),
        base=_text(raw["base"], _DIGEST) if kind is Kind.DELTA else "",
        nonce=_text(raw["nonce"], _NONCE),
        salt=_text(raw["salt"], _SALT) if kind is Kind.STORED else "",
    )
    if set(raw) != set(asdict(head)):
        raise ValueError("fields")
    return head


def _text(value: object, form: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not form.match(value):
        raise ValueError("text")
    return value


def _count(value: object, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError("count")
    return value
