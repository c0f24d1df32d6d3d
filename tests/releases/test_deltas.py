"""A registered bundle brings the hashes of its parts, and deltas from the bundles that devices come from."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from contracts.bundle import write_bundle
from contracts.bundle.chunks import Chunks
from contracts.bundle.delta import apply_delta, delta_path
from tests.releases.conftest import OLD
from tests.releases.repositories import updater
from tests.releases.test_bundles import fetcher, root
from tests.releases.world import World


def trained(folder: Path, name: str, weights: np.ndarray) -> bytes:
    build = hashlib.sha256(name.encode()).digest()[:16]
    program = bytes(24) + build + weights.astype(np.int8).tobytes()
    path = folder / f"{name}.elb"
    write_bundle(path, {"npu-4t/model.npu": program}, build_id=build, release_version=name, security_epoch=1)
    return path.read_bytes()


def upload(world: World, data: bytes) -> str:
    octets = {"Content-Type": "application/octet-stream"}
    answer = world.client.post("/releases/v1/bundles/uploads", token=world.service, content=data, headers=octets)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["digest"])


def test_a_retrained_bundle_is_published_with_parts_and_a_delta(world: World, tmp_path: Path) -> None:
    device = world.enrol(1, OLD)[0]
    weights = np.clip(np.random.default_rng(0).normal(0, 30, 40_000), -120, 120)
    old, new = trained(tmp_path, "1.0.0", weights), trained(tmp_path, "1.1.0", weights + 1)
    before, after = (upload(world, data) for data in (old, new))

    client = updater(tmp_path / "device", fetcher(world, device), root(world))
    whole = client.get_targetinfo(f"bundles/{after}.elb")
    assert whole is not None
    assert Chunks.parse(whole.custom, len(new)) == Chunks.of(new)
    info = client.get_targetinfo(delta_path(after, before))
    assert info is not None
    assert info.length < 0.5 * len(new)
    (tmp_path / "to").mkdir()
    delta = Path(client.download_target(info, str(tmp_path / "to" / "delta"))).read_bytes()
    assert apply_delta(old, delta) == new


def test_bundles_that_share_nothing_get_no_delta(world: World, tmp_path: Path) -> None:
    device = world.enrol(1, OLD)[0]
    noise = [np.random.default_rng(seed).integers(-127, 128, 40_000) for seed in (1, 2)]
    digests = [upload(world, trained(tmp_path, f"{index}.0.0", weights)) for index, weights in enumerate(noise)]
    client = updater(tmp_path / "device", fetcher(world, device), root(world))
    assert client.get_targetinfo(delta_path(digests[1], digests[0])) is None
