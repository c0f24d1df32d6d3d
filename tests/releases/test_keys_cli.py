"""`edgeloop release keys` against the running application, and a real agent that lives through it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs
from typer.testing import CliRunner

from contracts.device import DeviceTags
from contracts.state import Target
from demo.errors import DemoError
from demo.sealing import seal_bundles
from edge_agent.disk import Disk
from edge_agent.enrol import device_key, enrol
from edge_agent.sealed import KeyDesk, NoKey, SealedBundles
from edge_agent.store import BundleStore
from edge_agent.tee.client import TeeProcess
from edge_agent.transport import Transport, make_client
from edge_agent.updater import SignedRepository
from services.kit.database import transaction
from services.kit.settings import settings
from services.releases.cli import app
from services.releases.sealing import Sealing
from services.releases.wrapping_keys import FileWrappingKeys
from tests.releases.test_deltas import trained, upload
from tests.releases.test_sealed_bundles import WEIGHTS, offered
from tests.releases.world import World
from tests.support.http import LiveServer

TAGS = DeviceTags(device_class="npu-4t")
runner = CliRunner()


@pytest.fixture
def state(world: World, live_server: LiveServer, tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "state"
    folder.mkdir()
    described = {"base_url": live_server.url, "operator_token": world.operator}
    (folder / "platform.json").write_text(json.dumps(described))
    with transaction() as session:
        session.execute(text("TRUNCATE releases.content_keys"))
    with capture_logs() as logs:
        yield folder
    keys = FileWrappingKeys(settings().state_dir / "keys" / "releases")
    assert not [one for one in keys.generations if keys.key(one).hex() in json.dumps(logs, default=str)]
    for generation in keys.generations:
        keys.destroy(generation)


def run(state: Path, *words: str, code: int = 0) -> str:
    result = runner.invoke(app, ["keys", *words, "--state", str(state)])
    assert result.exit_code == code, result.output
    return result.output


def test_the_ceremony_from_the_first_master_key_to_a_revoked_device(
    world: World, state: Path, live_server: LiveServer, tmp_path: Path
) -> None:
    assert "published plain" in run(state, "show")
    assert json.loads(run(state, "rotate", "-m", "sealing on", "--json"))["newest"] == 1
    data = trained(tmp_path, "1.0.0", WEIGHTS)
    digest = upload(world, data)
    offered(world, digest)
    tee = TeeProcess(tmp_path / "device" / "tee", ["npu-4t"])
    with make_client() as http:
        disk, folder = Disk(durable=False), tmp_path / "device"
        identity = enrol(folder, Transport(live_server.url, http), world.enrolment_token(), TAGS, disk)
        transport = Transport(live_server.url, http, identity.access_token, attempts=1)
        store = BundleStore(folder / "bundles", disk, tee)
        desk = KeyDesk(transport, partial(device_key, folder, disk))
        repository = SignedRepository(folder / "tuf", identity.tuf_root, transport, None, disk)
        sealed = SealedBundles(repository, store, desk, "npu-4t", disk)
        target = Target(
            path=f"bundles/{digest}.ele", digest=digest, length=1, release_version="1.0.0", security_epoch=1
        )

        def fetched() -> bool:
            store.stored_path(digest).unlink(missing_ok=True)
            return sealed.fetch(target, store.incoming(digest, "me"), {}).digest == digest

        assert fetched()
        for role in ("targets", "root"):
            run(state, "rotate", "--role", role, "-m", "somebody left")
            assert fetched()
        assert json.loads(run(state, "rotate", "-m", "yearly", "--json"))["moved"] == 1
        assert "2 (newest)" in run(state, "show")
        run(state, "revoke", "--generation", "1", "-m", "rotated")
        assert fetched()
        run(state, "revoke", "--device", identity.device_id, "-m", "stolen")
        with pytest.raises(NoKey):
            fetched()
        run(state, "revoke", "--device", identity.device_id, "--lift", "-m", "found again")
        assert fetched()
    tee.close()


def test_the_demo_turns_sealing_on_with_an_operators_token_only(
    world: World, state: Path, live_server: LiveServer
) -> None:
    with pytest.raises(DemoError, match="403"):
        seal_bundles(live_server.url, world.enrol(1, "0" * 96)[0].token)
    seal_bundles(live_server.url, world.operator)
    assert json.loads(run(state, "show", "--json"))["sealing"] is True


def test_wrong_use_is_told(state: Path) -> None:
    assert "exactly one" in run(state, "revoke", "-m", "x", code=2)
    assert "exactly one" in run(state, "revoke", "--generation", "1", "--bundle", "ab", "-m", "x", code=2)
    assert "known:" in run(state, "rotate", "--role", "nobody", "-m", "x", code=2)
    assert "generation" in run(state, "revoke", "--generation", "9", "-m", "x", code=1)


def test_a_rotation_in_which_a_key_cannot_be_unwrapped_changes_nothing(
    world: World, state: Path, tmp_path: Path
) -> None:
    run(state, "rotate", "-m", "sealing on")
    upload(world, trained(tmp_path, "1.0.0", WEIGHTS))
    path = settings().state_dir / "keys" / "releases" / "content-1.key"
    path.write_text("ab" * 32)
    assert "generation 1" in " ".join(run(state, "rotate", "-m", "yearly", code=1).split())
    with transaction() as session:
        keys = FileWrappingKeys(path.parent)
        assert Sealing(session, keys).counts() == {1: 1}
