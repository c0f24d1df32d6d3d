"""Sealed bundles on the platform: sealed when there is a master key, opened by the devices that may, revocable."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from sqlalchemy import select, text

from contracts.bundle.delta import apply_delta, delta_path
from contracts.bundle.envelopes import binding, open_envelope
from contracts.bundle.sealed import parse_head, sealed_delta_path, unseal
from contracts.state import public_text
from contracts.wire.keys import signed_request
from services.kit.database import transaction
from services.kit.settings import settings
from services.releases import bundles, service
from services.releases.ddi.artifacts import artifact_of, file_of
from services.releases.deltas import _plain
from services.releases.keys import KeyUnusable
from services.releases.models import ContentKey
from services.releases.sealing import Sealing
from services.releases.wrapping_keys import FileWrappingKeys, GivenWrappingKeys
from tests.releases.repositories import updater
from tests.releases.test_bundles import fetcher, root
from tests.releases.test_deltas import trained, upload
from tests.releases.world import World, enrolment

ROUTE = "/releases/v1/bundle-keys"
KEYS = "/releases/v1/content-keys"
WEIGHTS = np.clip(np.random.default_rng(0).normal(0, 30, 40_000), -120, 120)


class Joined:
    """A device with an identity key and a sealing key."""

    def __init__(self, world: World, device_class: str = "npu-4t") -> None:
        self.world, self.identity, self.sealing = world, Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
        request = enrolment(world.enrolment_token(), {"device_class": device_class})
        request["public_key"] = public_text(self.identity.public_key())
        answer = world.client.post("/releases/v1/enrolments", json=request).json()
        self.id, self.token = answer["device_id"], answer["access_token"]

    def ask(self, path: str, sealing: X25519PrivateKey | None = None, identity: Ed25519PrivateKey | None = None) -> Any:
        raw = (sealing or self.sealing).public_key().public_bytes_raw()
        signature = (identity or self.identity).sign(signed_request(path, raw))
        body = {
            "path": path,
            "sealing_key": base64.b64encode(raw).decode(),
            "signature": base64.b64encode(signature).decode(),
        }
        return self.world.client.post(ROUTE, token=self.token, json=body)

    def key(self, path: str, sealed: bytes, device_class: str = "npu-4t") -> bytes:
        answer = self.ask(path)
        assert answer.status_code == 200, answer.text
        bound = binding(sealed[: parse_head(sealed)[1]], device_class)
        return open_envelope(base64.b64decode(answer.json()["envelope"]), self.sealing, bound)


@pytest.fixture
def sealing(world: World) -> Iterator[World]:
    with transaction() as session:
        session.execute(text("TRUNCATE releases.content_keys"))
    answer = world.client.post(f"{KEYS}/rotations", token=world.operator, json={"reason": "sealing on"})
    assert answer.status_code == 201, answer.text
    yield world
    folder = settings().state_dir / "keys" / "releases"
    for path in folder.glob("content-*.key"):
        path.unlink()


def offered(world: World, digest: str) -> None:
    with transaction() as session:
        session.execute(text("UPDATE releases.control SET baseline_digest = :digest"), {"digest": digest})


def target(world: World, path: str) -> bytes:
    with transaction() as session:
        data = service.readable_repository(session).read_target(path)
    assert data is not None, path
    return data


def test_without_a_master_key_bundles_stay_plain_and_with_one_they_are_sealed(world: World, tmp_path: Path) -> None:
    plain = upload(world, trained(tmp_path, "1.0.0", WEIGHTS))
    assert (
        world.client.get(f"/releases/v1/bundles/{plain}", token=world.operator).json()["target_path"].endswith(".elb")
    )


def test_a_device_fetches_a_sealed_bundle_and_opens_it_with_its_own_key(sealing: World, tmp_path: Path) -> None:
    data = trained(tmp_path, "1.0.0", WEIGHTS)
    digest = upload(sealing, data)
    offered(sealing, digest)
    path = f"bundles/{digest}.ele"
    sealed = target(sealing, path)
    assert data[2_000:2_100] not in sealed
    device = Joined(sealing)
    assert unseal(device.key(path, sealed), sealed) == data
    assert device.key(path, sealed) != device.ask(path).json()["envelope"]
    again = upload(sealing, data)
    assert again == digest
    assert target(sealing, path) == sealed


def test_a_delta_is_between_plain_bundles_and_travels_sealed(sealing: World, tmp_path: Path) -> None:
    old, new = trained(tmp_path, "1.0.0", WEIGHTS), trained(tmp_path, "1.1.0", WEIGHTS + 1)
    before, after = upload(sealing, old), upload(sealing, new)
    offered(sealing, after)
    path = sealed_delta_path(after, before)
    sealed = target(sealing, path)
    assert len(sealed) < 0.5 * len(new)
    delta = unseal(Joined(sealing).key(path, sealed), sealed)
    assert apply_delta(old, delta) == new
    device = sealing.enrol(1, "0" * 96)[0]
    client = updater(tmp_path / "device", fetcher(sealing, device), root(sealing))
    assert client.get_targetinfo(delta_path(after, before)) is None


def test_keys_are_for_the_right_device_key_identity_class_and_offer(sealing: World, tmp_path: Path) -> None:
    digest = upload(sealing, trained(tmp_path, "1.0.0", WEIGHTS))
    path = f"bundles/{digest}.ele"
    device = Joined(sealing)
    assert device.ask(path).status_code == 403  # not offered
    offered(sealing, digest)
    assert device.ask(path, identity=Ed25519PrivateKey.generate()).status_code == 403
    assert device.ask(path).status_code == 200
    assert device.ask(path, sealing=X25519PrivateKey.generate()).status_code == 403  # another than the pinned one
    assert Joined(sealing, "npu-2t").ask(path).status_code == 403  # not built for its class
    assert device.ask("bundles/none.ele").status_code == 403
    details = {
        device.ask(path, sealing=X25519PrivateKey.generate()).json()["detail"],
        Joined(sealing, "npu-2t").ask(path).json()["detail"],
    }
    assert len(details) == 1
    body = {"path": path, "sealing_key": "A" * 44, "signature": "A" * 88}
    assert sealing.client.post(ROUTE, token=sealing.operator, json=body).status_code == 403
    assert sealing.client.post(ROUTE, json=body).status_code == 401


def test_a_device_a_bundle_and_a_generation_can_be_revoked(sealing: World, tmp_path: Path) -> None:
    digest = upload(sealing, trained(tmp_path, "1.0.0", WEIGHTS))
    offered(sealing, digest)
    path, device = f"bundles/{digest}.ele", Joined(sealing)
    sealed = target(sealing, path)
    key = device.key(path, sealed)

    def revoke(**what: object) -> Any:
        body = {"reason": "test", **what}
        return sealing.client.post(f"{KEYS}/revocations", token=sealing.operator, json=body)

    assert revoke(device_id=device.id).status_code == 201
    assert device.ask(path).status_code == 403
    assert revoke(device_id=device.id, lift=True).status_code == 201
    assert device.ask(path, sealing=X25519PrivateKey.generate()).status_code == 200  # a new chip may be enrolled
    assert revoke(generation=1).status_code == 409
    rotated = sealing.client.post(f"{KEYS}/rotations", token=sealing.operator, json={"reason": "yearly"}).json()
    assert (rotated["newest"], rotated["moved"]) == (2, 1)
    assert Joined(sealing).key(path, sealed) == key
    assert revoke(generation=1).status_code == 201
    assert not (settings().state_dir / "keys" / "releases" / "content-1.key").exists()
    assert Joined(sealing).key(path, sealed) == key
    assert revoke(generation=2).status_code == 409
    assert revoke(generation=7).status_code == 404
    assert revoke().status_code == 422
    assert revoke(generation=1, digest=digest).status_code == 422
    assert revoke(digest=digest).json()["moved"] == 1
    assert Joined(sealing).ask(path).status_code == 403


def test_a_wrong_master_key_is_named_and_nothing_is_handed_out(
    sealing: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = upload(sealing, trained(tmp_path, "1.0.0", WEIGHTS))
    offered(sealing, digest)
    wrong = GivenWrappingKeys("1:" + base64.b64encode(b"w" * 32).decode())
    monkeypatch.setattr(service, "wrapping_keys", lambda: wrong)
    answer = Joined(sealing).ask(f"bundles/{digest}.ele")
    assert answer.status_code == 503
    assert "generation 1" in answer.json()["detail"]
    assert base64.b64encode(b"w" * 32).decode() not in answer.text
    with transaction() as session:
        row = bundles.find(session, digest)
        repository = service.readable_repository(session)
        assert _plain(repository, Sealing(session, wrong), row) is None


def test_content_keys_are_not_in_the_database_in_clear(sealing: World, tmp_path: Path) -> None:
    digest = upload(sealing, trained(tmp_path, "1.0.0", WEIGHTS))
    with transaction() as session:
        row = session.scalars(select(ContentKey).where(ContentKey.digest == digest)).one()
        key = Sealing(session, service.wrapping_keys()).content_key(row)
        assert key not in row.wrapped
        assert len(row.wrapped) == 12 + 32 + 16


def test_when_sealing_is_required_nothing_is_released_without_a_key(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "seals_bundles", lambda: True)
    monkeypatch.setattr(service, "wrapping_keys", lambda: FileWrappingKeys(tmp_path / "none"))
    octets = {"Content-Type": "application/octet-stream"}
    data = trained(tmp_path, "1.0.0", WEIGHTS)
    answer = world.client.post("/releases/v1/bundles/uploads", token=world.service, content=data, headers=octets)
    assert answer.status_code == 503
    assert "keys rotate" in answer.json()["detail"]


def test_master_keys_that_others_can_read_or_that_are_no_keys_are_refused(tmp_path: Path) -> None:
    keys = FileWrappingKeys(tmp_path)
    assert keys.generations == ()
    assert (keys.create(), keys.create(), keys.generations) == (1, 2, (1, 2))
    assert len(keys.key(1)) == 32
    (tmp_path / "content-1.key").chmod(0o644)
    for change in (lambda: None, lambda: (tmp_path / "content-1.key").write_text("zz")):
        change()
        with pytest.raises(KeyUnusable, match="content"):
            keys.key(1)
    for wrong in (",", "x", "1:zz", "0:" + "A" * 44, "1:QUJD"):
        with pytest.raises(KeyUnusable, match="EDGELOOP_CONTENT_KEYS"):
            GivenWrappingKeys(wrong)


def test_a_hawkbit_client_gets_the_sealed_file_and_no_key(sealing: World, tmp_path: Path) -> None:
    digest = upload(sealing, trained(tmp_path, "1.0.0", WEIGHTS))
    with transaction() as session:
        session.execute(text("DELETE FROM releases.ddi_artifacts"))
        artifact = artifact_of(session, digest)
        _, path = file_of(session, artifact.id, artifact.filename)
        assert artifact.filename.endswith(".ele")
        assert path.read_bytes() == target(sealing, f"bundles/{digest}.ele")
        assert artifact.size == len(path.read_bytes())
