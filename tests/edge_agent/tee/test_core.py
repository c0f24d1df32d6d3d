"""What the trusted environment opens, and what it refuses."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from contracts.bundle.envelopes import binding, close_envelope
from contracts.bundle.sealed import Head, Kind, parse_head, seal
from edge_agent.tee import TeeRefused, Why
from edge_agent.tee.core import DOMAIN, FILE, Tee
from tests.support.agent_twin import make_bundle
from tests.support.sealing_twin import CLASSES, Sealer


@pytest.fixture
def tee(tmp_path: Path) -> Tee:
    return Tee(tmp_path / "tee", CLASSES)


def refusal(tee: Tee, sealed: bytes, envelope: bytes, device_class: str = "npu-4t", base: bytes = b"") -> Why:
    with pytest.raises(TeeRefused) as caught:
        tee.admit(sealed, envelope, device_class, base)
    return caught.value.why


def test_a_sealed_bundle_becomes_a_stored_one_and_opens_after_a_restart(tee: Tee, tmp_path: Path) -> None:
    bundle, sealer = make_bundle(tmp_path, "2.0"), Sealer()
    path, sealed = sealer.bundle(bundle.data, bundle.digest, 1)
    envelope = sealer.envelope(path, tee.public().sealing)
    assert envelope is not None
    stored = tee.admit(sealed, envelope, "npu-4t")
    assert b"WEIGHTS" not in sealed + stored
    again = Tee(tmp_path / "tee", CLASSES)
    assert bytes(again.open(stored)) == bundle.data
    assert again.public() == tee.public()
    assert stat.S_IMODE((tmp_path / "tee" / FILE).stat().st_mode) == 0o600


def test_a_delta_is_applied_inside_to_a_stored_or_a_plain_base(tee: Tee, tmp_path: Path) -> None:
    one, two, sealer = make_bundle(tmp_path, "1.0"), make_bundle(tmp_path, "2.0"), Sealer()
    path, sealed = sealer.bundle(one.data, one.digest, 1)
    stored = tee.admit(sealed, sealer.envelope(path, tee.public().sealing) or b"", "npu-4t")
    path, delta = sealer.delta(one.data, one.digest, two.data, two.digest, 1)
    envelope = sealer.envelope(path, tee.public().sealing) or b""
    for base in (stored, one.data):
        assert bytes(tee.open(tee.admit(delta, envelope, "npu-4t", base))) == two.data
    assert refusal(tee, delta, envelope, base=two.data) is Why.DAMAGED
    assert refusal(tee, delta, envelope) is Why.DAMAGED


def test_the_envelope_must_fit_device_bundle_class_and_epoch(tee: Tee, tmp_path: Path) -> None:
    bundle, other, sealer = make_bundle(tmp_path, "2.0"), make_bundle(tmp_path, "3.0"), Sealer()
    path, sealed = sealer.bundle(bundle.data, bundle.digest, 1)
    foreign, _ = sealer.bundle(other.data, other.digest, 1)
    mine = tee.public().sealing
    elsewhere = Tee(tmp_path / "elsewhere", CLASSES).public().sealing
    assert refusal(tee, sealed, sealer.envelope(foreign, mine) or b"") is Why.WRONG_KEY
    assert refusal(tee, sealed, sealer.envelope(path, elsewhere) or b"") is Why.WRONG_KEY
    assert refusal(tee, sealed, sealer.envelope(path, mine, "npu-2t") or b"") is Why.WRONG_KEY
    assert refusal(tee, sealed, sealer.envelope(path, mine, "npu-8t") or b"", "npu-8t") is Why.WRONG_CLASS
    assert refusal(tee, sealed, b"") is Why.WRONG_KEY
    head, clear = parse_head(sealed)
    newer = replace(head, security_epoch=9).to_bytes() + sealed[clear:]
    assert refusal(tee, newer, sealer.envelope(path, mine) or b"") is Why.WRONG_KEY


def test_an_older_epoch_is_neither_admitted_nor_opened(tee: Tee, tmp_path: Path) -> None:
    bundle, sealer = make_bundle(tmp_path, "2.0"), Sealer()
    path, sealed = sealer.bundle(bundle.data, bundle.digest, 1)
    envelope = sealer.envelope(path, tee.public().sealing) or b""
    stored = tee.admit(sealed, envelope, "npu-4t")
    assert tee.raise_floor(2) == 2
    assert tee.raise_floor(1) == 2
    again = Tee(tmp_path / "tee", CLASSES)
    assert refusal(again, sealed, envelope) is Why.OLD_EPOCH
    with pytest.raises(TeeRefused) as caught:
        again.open(stored)
    assert caught.value.why is Why.OLD_EPOCH


def test_a_head_that_lies_about_the_digest_is_found_out(tee: Tee) -> None:
    data = os.urandom(500)
    head = Head(Kind.BUNDLE, "ab" * 48, CLASSES, 1, len(data))
    key, sealed = seal(head, data)
    envelope = close_envelope(key, tee.public().sealing, binding(head.to_bytes(), "npu-4t"))
    assert hashlib.sha384(data).hexdigest() != head.digest
    assert refusal(tee, sealed, envelope) is Why.DAMAGED


def test_it_signs_in_a_domain_of_its_own_and_only_short_messages(tee: Tee) -> None:
    key = Ed25519PublicKey.from_public_bytes(tee.public().signing)
    key.verify(tee.sign(b"a message"), DOMAIN + b"a message")
    with pytest.raises(TeeRefused):
        tee.sign(bytes(10_000))


def test_damaged_secrets_and_another_chip_are_told_not_replaced(tee: Tee, tmp_path: Path) -> None:
    with pytest.raises(TeeRefused) as caught:
        Tee(tmp_path / "tee", ["npu-8t"])
    assert caught.value.why is Why.WRONG_CLASS
    bundle, sealer = make_bundle(tmp_path, "2.0"), Sealer(("npu-2t", "npu-4t", "npu-8t"))
    target, sealed = sealer.bundle(bundle.data, bundle.digest, 1)
    wider = Tee(tmp_path / "tee", [*CLASSES, "npu-8t"])
    envelope = sealer.envelope(target, wider.public().sealing, "npu-8t") or b""
    assert refusal(wider, sealed, envelope, "npu-8t") is Why.WRONG_CLASS
    path = tmp_path / "tee" / FILE
    path.write_bytes(path.read_bytes().replace(b'"floor": 0', b'"floor": 7'))
    with pytest.raises(TeeRefused) as caught:
        Tee(tmp_path / "tee", CLASSES)
    assert caught.value.why is Why.BROKEN
