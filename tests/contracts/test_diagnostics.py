"""The diagnostic package: opened by one key, whole or not at all, bounded on both sides."""

from __future__ import annotations

import json
import os
import zlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from contracts.bundle.envelopes import close_envelope
from contracts.diagnostics import (
    MAGIC,
    MOST_FILE,
    MOST_PLAIN,
    SIGNATURE_DOMAIN,
    DiagnosticsError,
    close_package,
    open_package,
)

PRIVATE, DEVICE = X25519PrivateKey.generate(), Ed25519PrivateKey.generate()
PUBLIC = PRIVATE.public_key().public_bytes_raw()
BODY = {"format": "f", "slots": {"active": "a"}, "signing_key": DEVICE.public_key().public_bytes_raw().hex()}


def signed(digest: bytes) -> bytes:
    return DEVICE.sign(SIGNATURE_DOMAIN + digest)


def test_a_package_is_opened_by_the_platforms_key_and_names_its_device() -> None:
    package = close_package(BODY, PUBLIC, signed)
    found = open_package(package, PRIVATE)
    assert found.body == BODY
    assert found.signed_by == BODY["signing_key"]
    assert b"slots" not in package
    assert open_package(close_package(BODY, PUBLIC), PRIVATE).signed_by == ""
    with pytest.raises(DiagnosticsError):
        open_package(package, X25519PrivateKey.generate())


def test_every_byte_counts() -> None:
    package = close_package(BODY, PUBLIC, signed)
    for at in range(0, len(package), 3):
        with pytest.raises(DiagnosticsError):
            open_package(package[:at] + bytes([package[at] ^ 4]) + package[at + 1 :], PRIVATE)
    for cut in (1, 64, 100, len(package)):
        with pytest.raises(DiagnosticsError):
            open_package(package[:-cut], PRIVATE)


def test_neither_side_goes_beyond_its_bounds() -> None:
    with pytest.raises(DiagnosticsError):
        close_package({"x": "y" * MOST_PLAIN}, PUBLIC)
    with pytest.raises(DiagnosticsError):
        close_package({"x": os.urandom(MOST_FILE).hex()}, PUBLIC)
    with pytest.raises(DiagnosticsError):
        open_package(bytes(MOST_FILE + 1), PRIVATE)
    key, nonce = AESGCM.generate_key(256), bytes(12)
    clear = MAGIC + close_envelope(key, PUBLIC, b"edgeloop-diagnostics-1")
    bomb = zlib.compress(json.dumps({"x": "0" * (MOST_PLAIN + 100)}).encode(), 9)
    with pytest.raises(DiagnosticsError, match="too large"):
        open_package(clear + nonce + AESGCM(key).encrypt(nonce, bomb, clear) + bytes(64), PRIVATE)
