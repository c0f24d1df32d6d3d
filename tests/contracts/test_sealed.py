"""Sealed files and envelopes: what was sealed comes back, and nothing that was touched does."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from contracts.bundle.envelopes import EnvelopeError, binding, close_envelope, open_envelope
from contracts.bundle.sealed import (
    Head,
    Kind,
    SealedError,
    parse_head,
    seal,
    store,
    stored_head,
    unseal,
    unstore,
)

PLAIN = b"WEIGHTS" * 500
HEAD = Head(Kind.BUNDLE, "ab" * 48, ("npu-2t", "npu-4t"), 3, len(PLAIN))


def test_what_was_sealed_comes_back_and_no_key_is_used_twice() -> None:
    (key, sealed), (other, again) = seal(HEAD, PLAIN), seal(HEAD, PLAIN)
    assert unseal(key, sealed) == PLAIN
    assert key != other
    assert sealed[len(HEAD.to_bytes()) :] != again[len(HEAD.to_bytes()) :]
    assert PLAIN[:20] not in sealed


def test_every_byte_of_head_ciphertext_and_tag_is_authenticated() -> None:
    key, sealed = seal(HEAD, PLAIN)
    places = [*range(0, 300, 7), len(sealed) // 2, *range(len(sealed) - 16, len(sealed))]
    for at in places:
        changed = sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]
        with pytest.raises(SealedError):
            unseal(key, changed)
    for cut in (1, 15, 16, 17, len(sealed) - 4):
        with pytest.raises(SealedError):
            unseal(key, sealed[:-cut])
    with pytest.raises(SealedError):
        unseal(key, sealed + b"\0")


@pytest.mark.parametrize(
    "lie",
    [{"security_epoch": 4}, {"classes": ("npu-8t",)}, {"digest": "cd" * 48}, {"kind": Kind.DELTA, "base": "ef" * 48}],
)
def test_a_head_that_says_something_else_does_not_open(lie: dict[str, object]) -> None:
    key, sealed = seal(HEAD, PLAIN)
    rest = sealed[parse_head(sealed)[1] :]
    with pytest.raises(SealedError):
        unseal(key, replace(HEAD, **lie).to_bytes() + rest)  # type: ignore[arg-type]  # free fields


def test_garbage_is_refused_and_never_allocates_what_it_claims() -> None:
    for seed in range(200):
        with pytest.raises(SealedError):
            parse_head(b"ELE1" + os.urandom(seed))
    with pytest.raises(SealedError):
        parse_head(b"ELE1\xff\xff\xff\xff" + bytes(100))


def test_a_device_opens_its_own_stored_files_only() -> None:
    mine, theirs = os.urandom(32), os.urandom(32)
    head = stored_head(HEAD, len(PLAIN))
    kept = store(mine, head, PLAIN)
    assert unstore(mine, kept) == PLAIN
    assert store(mine, stored_head(HEAD, len(PLAIN)), PLAIN) != kept
    with pytest.raises(SealedError):
        unstore(theirs, kept)
    _, sealed = seal(HEAD, PLAIN)
    with pytest.raises(SealedError):
        unstore(mine, sealed)


def test_an_envelope_opens_for_one_device_one_file_and_one_class() -> None:
    device, other = X25519PrivateKey.generate(), X25519PrivateKey.generate()
    key, head = AESGCM.generate_key(256), HEAD.to_bytes()
    bound = binding(head, "npu-4t")
    envelope = close_envelope(key, device.public_key().public_bytes_raw(), bound)
    assert open_envelope(envelope, device, bound) == key
    later = replace(HEAD, security_epoch=4).to_bytes()
    for wrong in (binding(head, "npu-2t"), binding(later, "npu-4t"), binding(seal(HEAD, PLAIN)[1], "npu-4t")):
        with pytest.raises(EnvelopeError):
            open_envelope(envelope, device, wrong)
    with pytest.raises(EnvelopeError):
        open_envelope(envelope, other, bound)
    with pytest.raises(EnvelopeError):
        open_envelope(envelope[:-1], device, bound)
    with pytest.raises(EnvelopeError):
        close_envelope(key, b"short", bound)
