"""The update repository as python-tuf's own client sees it, through crashes, expiry and attacks."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest
from tuf.api.exceptions import BadVersionNumberError, DownloadError, ExpiredMetadataError, RepositoryError
from tuf.api.metadata import Metadata, Timestamp

from services.releases.keys import FileKeyStore, KeyUnusable
from services.releases.tuf_repository import RepositoryError as Unusable
from services.releases.tuf_repository import UpdateRepository
from tests.releases.repositories import MemoryObjects, MovableClock, fetch_from, repository, updater

CUSTOM = {"release_version": "1.2.0", "security_epoch": 3, "build_id": "b1"}
PATH = "bundles/a.elb"


@pytest.fixture
def objects() -> MemoryObjects:
    return MemoryObjects()


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def made(objects: MemoryObjects, clock: MovableClock, tmp_path: Path) -> UpdateRepository:
    repo = repository(objects, clock, tmp_path / "keys")
    repo.create()
    return repo


def download(objects: MemoryObjects, root: bytes, folder: Path, path: str = PATH) -> bytes:
    client = updater(folder, fetch_from(objects), root)
    client.refresh()
    info = client.get_targetinfo(path)
    assert info is not None, f"{path} is not a target"
    return Path(client.download_target(info)).read_bytes()


def test_a_client_downloads_a_target_with_its_custom_fields(
    objects: MemoryObjects, made: UpdateRepository, tmp_path: Path
) -> None:
    made.add_target(PATH, b"bundle", CUSTOM)
    assert download(objects, made.root(), tmp_path / "client") == b"bundle"
    client = updater(tmp_path / "client", fetch_from(objects), None)
    info = client.get_targetinfo(PATH)
    assert info is not None
    assert info.custom == CUSTOM


def test_publishing_the_same_bytes_twice_changes_nothing(objects: MemoryObjects, made: UpdateRepository) -> None:
    first = made.add_target(PATH, b"bundle", CUSTOM)
    writes = objects.writes
    assert made.add_target(PATH, b"bundle", CUSTOM) == first
    assert objects.writes == writes


def test_creating_twice_keeps_the_first_root(made: UpdateRepository) -> None:
    root = made.root()
    made.create()
    assert made.root() == root


def test_a_crash_at_any_write_leaves_the_old_metadata_valid_and_a_retry_works(tmp_path: Path) -> None:
    for cut in range(1, 5):
        objects, clock = MemoryObjects(), MovableClock()
        repo = repository(objects, clock, tmp_path / f"keys{cut}")
        repo.create()
        repo.add_target("bundles/old.elb", b"old", CUSTOM)
        objects.fail_at = objects.writes + cut
        with pytest.raises(OSError, match="disk"):
            repo.add_target(PATH, b"new", CUSTOM)
        objects.fail_at = None
        folder = tmp_path / f"client{cut}"
        assert download(objects, repo.root(), folder, "bundles/old.elb") == b"old"
        repo.add_target(PATH, b"new", CUSTOM)
        assert download(objects, repo.root(), folder) == b"new"


def test_a_changed_byte_of_a_target_is_refused(objects: MemoryObjects, made: UpdateRepository, tmp_path: Path) -> None:
    key = made.add_target(PATH, b"bundle", CUSTOM)
    objects.objects[key] = b"bumdle"
    with pytest.raises(RepositoryError):
        download(objects, made.root(), tmp_path / "client")


@pytest.mark.parametrize("name", ["timestamp.json", "2.snapshot.json", "2.targets.json"])
def test_changed_metadata_are_refused(
    name: str, objects: MemoryObjects, made: UpdateRepository, tmp_path: Path
) -> None:
    made.add_target(PATH, b"bundle", CUSTOM)
    document = json.loads(objects.objects[f"tuf/metadata/{name}"])
    document["signed"]["version"] = 9
    objects.objects[f"tuf/metadata/{name}"] = json.dumps(document).encode()
    with pytest.raises((RepositoryError, DownloadError)):
        download(objects, made.root(), tmp_path / "client")


def test_an_older_timestamp_is_refused(objects: MemoryObjects, made: UpdateRepository, tmp_path: Path) -> None:
    old = objects.objects["tuf/metadata/timestamp.json"]
    made.add_target(PATH, b"bundle", CUSTOM)
    download(objects, made.root(), tmp_path / "client")
    objects.objects["tuf/metadata/timestamp.json"] = old
    client = updater(tmp_path / "client", fetch_from(objects), None)
    with pytest.raises(BadVersionNumberError):
        client.refresh()


def test_a_frozen_repository_expires_and_the_refresh_keeps_a_living_one_valid(
    objects: MemoryObjects, made: UpdateRepository, clock: MovableClock, tmp_path: Path
) -> None:
    frozen, frozen_clock = MemoryObjects(), MovableClock()
    frozen_clock.ahead = timedelta(days=-2)
    dead = repository(frozen, frozen_clock, tmp_path / "frozen-keys")
    dead.create()
    with pytest.raises(ExpiredMetadataError):
        updater(tmp_path / "frozen", fetch_from(frozen), dead.root()).refresh()
    frozen_clock.ahead = timedelta()
    assert dead.refresh() == ("timestamp",)
    updater(tmp_path / "frozen", fetch_from(frozen), dead.root()).refresh()
    assert made.refresh() == ()
    clock.ahead = timedelta(days=5)
    assert made.refresh() == ("snapshot", "timestamp")


def test_foreign_keys_are_refused_with_the_remedy(
    objects: MemoryObjects, made: UpdateRepository, clock: MovableClock, tmp_path: Path
) -> None:
    other = repository(objects, clock, tmp_path / "other-keys")
    with pytest.raises(Unusable, match="restore the signing keys"):
        other.add_target(PATH, b"bundle", CUSTOM)


@pytest.mark.parametrize("name", ["../keys/root.pem", "0.root.json", "root.json", "1.targets.json/..", "x" * 200])
def test_a_name_that_no_metadata_file_has_is_refused(name: str, made: UpdateRepository) -> None:
    with pytest.raises(ValueError, match="not the name"):
        made.metadata(name)


def test_keys_are_private_files_and_a_readable_one_is_refused(tmp_path: Path) -> None:
    keys = FileKeyStore(tmp_path / "keys")
    first = keys.state_key()
    path = tmp_path / "keys" / "state.pem"
    assert path.stat().st_mode & 0o777 == 0o600
    assert keys.state_key().public_key() == first.public_key()
    os.chmod(path, 0o644)
    with pytest.raises(KeyUnusable, match="chmod 600"):
        keys.state_key()


@pytest.mark.parametrize("role", ["root", "targets", "snapshot", "timestamp"])
def test_a_role_gets_a_new_key_and_old_and_new_devices_follow(
    objects: MemoryObjects, made: UpdateRepository, tmp_path: Path, role: str
) -> None:
    first, old = made.root(), FileKeyStore(tmp_path / "keys").signer(role).public_key.keyid
    made.add_target(PATH, b"bundle", CUSTOM)
    assert download(objects, first, tmp_path / "client") == b"bundle"
    version = made.rotate(role)
    assert FileKeyStore(tmp_path / "keys").signer(role).public_key.keyid != old
    newest = json.loads(made.root())["signed"]
    assert newest["version"] == version == 3
    assert old not in newest["roles"][role]["keyids"]
    made.add_target("bundles/b.elb", b"next", CUSTOM)
    for folder, root in (("client", first), ("stranger", first), ("newcomer", made.root())):
        assert download(objects, root, tmp_path / folder, "bundles/b.elb") == b"next"


@pytest.mark.parametrize("role", ["root", "targets", "timestamp"])
def test_a_rotation_that_is_cut_short_anywhere_is_finished_and_no_device_is_shut_out_meanwhile(
    clock: MovableClock, tmp_path: Path, role: str
) -> None:
    for at in range(1, 20):
        objects, folder = MemoryObjects(), tmp_path / str(at)
        repo = repository(objects, clock, folder / "keys")
        repo.create()
        repo.add_target(PATH, b"bundle", CUSTOM)
        first = repo.root()
        objects.fail_at = objects.writes + at
        try:
            repo.rotate(role)
        except OSError:
            pass
        else:
            break
        finally:
            objects.fail_at = None
        assert download(objects, first, folder / "during") == b"bundle"
        repo.refresh()
        assert not (folder / "keys" / f"{role}.next.pem").exists()
        assert len(json.loads(repo.root())["signed"]["roles"][role]["keyids"]) == 1
        assert download(objects, first, folder / "after") == b"bundle"
    assert at > 4


def test_a_stolen_old_key_signs_nothing_after_its_rotation(
    objects: MemoryObjects, made: UpdateRepository, tmp_path: Path
) -> None:
    first = made.root()
    stolen = (tmp_path / "keys" / "timestamp.pem").read_bytes()
    made.rotate("timestamp")
    (tmp_path / "keys" / "timestamp.pem").write_bytes(stolen)
    metadata = Metadata[Timestamp].from_bytes(objects.get("tuf/metadata/timestamp.json"))
    metadata.signed.version += 1
    metadata.sign(FileKeyStore(tmp_path / "keys").signer("timestamp"))
    objects.put("tuf/metadata/timestamp.json", metadata.to_bytes())
    with pytest.raises(RepositoryError):
        download(objects, first, tmp_path / "client")


def test_the_root_is_renewed_before_it_expires(
    objects: MemoryObjects, made: UpdateRepository, clock: MovableClock
) -> None:
    before = json.loads(made.root())["signed"]["expires"]
    clock.ahead = timedelta(days=200)
    made.refresh()
    assert json.loads(made.root())["signed"]["expires"] > before
