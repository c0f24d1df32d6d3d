"""Bundles come in whole, gated and once; python-tuf's client gets them from the running application."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tuf.api.exceptions import RepositoryError

from services.kit.clients import ServiceClient
from services.releases import service
from services.releases.routes.bundles import builds_client
from tests.releases.conftest import OLD
from tests.releases.repositories import Fetcher, updater
from tests.releases.world import FakeDevice, World, bundle_bytes

BUNDLES = "/releases/v1/bundles"


def fetcher(world: World, device: FakeDevice, change: dict[str, bytes] | None = None) -> Fetcher:
    def get(path: str) -> tuple[int, bytes]:
        answer = world.client.get(f"/releases/tuf/{path}", token=device.token)
        return answer.status_code, (change or {}).get(path, answer.content)

    return Fetcher(get)


def flipped(data: bytes) -> bytes:
    """The same file with one bit of a program changed."""
    end = zipfile.ZipFile(io.BytesIO(data)).infolist()[2].header_offset - 1
    return data[:end] + bytes([data[end] ^ 1]) + data[end + 1 :]


def root(world: World) -> bytes:
    return world.client.get("/releases/tuf/metadata/1.root.json").content


def test_a_device_downloads_a_released_bundle_through_signed_metadata(world: World, tmp_path: Path) -> None:
    device = world.enrol(1, OLD)[0]
    digest = world.register(version="3.1.4", epoch=7)
    record = world.client.get(f"{BUNDLES}/{digest}", token=world.operator).json()
    client = updater(tmp_path / "device", fetcher(world, device), root(world))
    info = client.get_targetinfo(record["target_path"])
    assert info is not None
    assert info.custom["release_version"] == "3.1.4"
    assert info.custom["security_epoch"] == 7
    assert len(Path(client.download_target(info)).read_bytes()) == record["length"]


def test_the_state_documents_key_is_itself_a_signed_target(world: World, tmp_path: Path) -> None:
    device = world.enrol(1, OLD)[0]
    client = updater(tmp_path / "device", fetcher(world, device), root(world))
    info = client.get_targetinfo("state-key.json")
    assert info is not None
    assert json.loads(Path(client.download_target(info)).read_bytes())["public"] == device.state_key


def test_a_tampered_download_is_refused(world: World, tmp_path: Path) -> None:
    device = world.enrol(1, OLD)[0]
    digest = world.register()
    record = world.client.get(f"{BUNDLES}/{digest}", token=world.operator).json()
    client = updater(tmp_path / "device", fetcher(world, device), root(world))
    info = client.get_targetinfo(record["target_path"])
    assert info is not None
    folder, _, name = record["target_path"].rpartition("/")
    path = f"targets/{folder}/{info.hashes['sha256']}.{name}"
    evil = updater(tmp_path / "evil", fetcher(world, device, {path: b"\0" * record["length"]}), root(world))
    with pytest.raises(RepositoryError):
        evil.download_target(info)


def test_a_target_is_given_by_range_and_to_devices_only(world: World) -> None:
    device = world.enrol(1, OLD)[0]
    digest = world.register()
    record = world.client.get(f"{BUNDLES}/{digest}", token=world.operator).json()
    target = service.UpdateRepository(service.objects(), service.keys()).target(record["target_path"])
    assert target is not None
    path = f"/releases/tuf/targets/bundles/{target.hashes['sha256']}.{digest}.elb"
    whole = world.client.get(path, token=device.token).content
    part = world.client.get(path, token=device.token, headers={"Range": "bytes=100-199"})
    assert part.status_code == 206
    assert part.content == whole[100:200]
    assert world.client.get(path, token=device.token, headers={"Range": "bytes=99999999-"}).status_code == 416
    assert world.client.get(path).status_code == 401


@pytest.mark.parametrize(
    "path",
    [
        "metadata/2.root.json",
        "metadata/secret.json",
        "targets/nothing",
        "targets/../../keys/releases/root.pem",
    ],
)
def test_what_is_not_there_is_a_404(world: World, path: str) -> None:
    device = world.enrol(1, OLD)[0]
    assert world.client.get(f"/releases/tuf/{path}", token=device.token).status_code == 404


def test_the_same_bundle_twice_is_registered_once(world: World, tmp_path: Path) -> None:
    data = bundle_bytes(tmp_path)
    options: dict[str, Any] = {
        "token": world.service,
        "content": data,
        "headers": {"Content-Type": "application/octet-stream"},
    }
    first, again = (world.client.post(f"{BUNDLES}/uploads", **options) for _ in range(2))
    assert first.json() == again.json()
    assert len(world.client.get(BUNDLES, token=world.operator).json()["items"]) == 1


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[: len(data) // 2],
        flipped,
        lambda _: b"PK",
    ],
)
def test_a_damaged_bundle_is_refused_and_changes_nothing(world: World, tmp_path: Path, spoil: Any) -> None:
    content = spoil(bundle_bytes(tmp_path))
    headers = {"Content-Type": "application/octet-stream"}
    answer = world.client.post(f"{BUNDLES}/uploads", token=world.service, content=content, headers=headers)
    assert answer.status_code == 422
    assert answer.json()["type"] == "/problems/bad-bundle"
    assert world.client.get(BUNDLES, token=world.operator).json()["items"] == []


@pytest.fixture
def builds(world: World, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A twin of the builds service behind the real client."""
    twin: dict[str, Any] = {"state": "passed", "data": bundle_bytes(tmp_path), "calls": 0}

    def answer(request: httpx.Request) -> httpx.Response:
        twin["calls"] += 1
        if "down" in twin:
            raise httpx.ConnectError("refused")
        if request.url.path.endswith("/bundle"):
            return httpx.Response(200, content=twin["data"])
        if "unknown" in request.url.path:
            return httpx.Response(404, json={"detail": "no such build"})
        digest = twin.get("digest", hashlib.sha384(twin["data"]).hexdigest())
        build = {
            "id": "b1",
            "name": "vsr",
            "state": twin["state"],
            "release_version": "1",
            "security_epoch": 1,
        }
        return httpx.Response(200, json={**build, "digest": digest, "created": 0.0})

    def client() -> Iterator[ServiceClient]:
        with ServiceClient("http://builds.test/builds", "token", httpx.MockTransport(answer)) as made:
            yield made

    world.client.app.dependency_overrides[builds_client] = client
    yield twin
    world.client.app.dependency_overrides.clear()


def post_build(world: World, build_id: str = "b1", **options: Any) -> httpx.Response:
    return world.client.post(BUNDLES, token=world.service, json={"build_id": build_id}, **options)


def test_a_passed_build_is_fetched_and_registered(world: World, builds: dict[str, Any]) -> None:
    answer = post_build(world)
    assert answer.status_code == 201
    assert answer.json()["build_id"] == "b1"


def test_a_build_that_the_gate_blocked_is_never_released(world: World, builds: dict[str, Any]) -> None:
    builds["state"] = "blocked"
    answer = post_build(world)
    assert answer.status_code == 409
    assert "only a passed build" in answer.json()["detail"]


def test_a_bundle_other_than_its_build_says_is_refused(world: World, builds: dict[str, Any]) -> None:
    builds["digest"] = "e" * 96
    assert post_build(world).status_code == 422


def test_an_unknown_build_is_a_404_and_a_dead_builds_service_a_503(world: World, builds: dict[str, Any]) -> None:
    assert post_build(world, "unknown").status_code == 404
    builds["down"] = True
    answer = post_build(world)
    assert answer.status_code == 503
    assert "retry-after" in answer.headers


def test_a_repeated_registration_with_a_key_asks_the_builds_service_once(world: World, builds: dict[str, Any]) -> None:
    headers = {"Idempotency-Key": "release-1"}
    first = post_build(world, headers=headers)
    calls = builds["calls"]
    assert post_build(world, headers=headers).json() == first.json()
    assert builds["calls"] == calls
