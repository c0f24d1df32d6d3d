"""One key of the state document follows another while devices live on, and a key that ended opens nothing."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import text
from structlog.testing import capture_logs
from typer.testing import CliRunner

from contracts.device import DeviceTags
from contracts.state import DeviceState, StateError, UnknownSigner, public_key, public_text, sign_state, verify_state
from contracts.state_keys import STATE_KEY_TARGET, decode_list
from edge_agent.disk import Disk
from edge_agent.enrol import Identity, enrol
from edge_agent.errors import TrustError, Unreachable
from edge_agent.limits import LIMITS
from edge_agent.platform import Document, HttpStateFeed, StateKeeper
from edge_agent.simulated.device import LightDevice, Surroundings, Ticket
from edge_agent.simulated.http import LightClient
from edge_agent.simulated.repository import SharedDocuments, SharedTargets
from edge_agent.state_keys import StateKeys
from edge_agent.transport import Transport, make_client
from edge_agent.updater import SignedRepository
from services.kit.auth import Subject
from services.kit.database import transaction
from services.releases import service, state_keys
from services.releases.cli import app
from services.releases.keys import STATE, FileKeyStore
from services.releases.models import StateKeyRow
from tests.releases.world import World
from tests.support.agent_twin import PowerCut
from tests.support.http import LiveServer

TAGS = DeviceTags(device_class="npu-4t")
ADA = Subject("operator", "ada", frozenset(), "t")
DAY = 86_400
runner = CliRunner()


@dataclass
class Time:
    """A device's real clock, moved by hand ahead of the true one."""

    ahead: float = 0.0

    def now(self) -> float:
        import time

        return time.time() + self.ahead


@dataclass
class Unit:
    """A real agent's own parts: identity, repository, keys, keeper."""

    identity: Identity
    feed: Feed
    keeper: StateKeeper
    keys: StateKeys
    targets: SignedRepository
    time: Time


class Feed:
    """The platform's documents, or those of somebody else on the wire."""

    def __init__(self, real: HttpStateFeed) -> None:
        self.real, self.forged, self.offline = real, b"", False

    def fetch(self, known_etag: str) -> Document | None:
        if self.offline:
            raise Unreachable("no network")
        if self.forged:
            return Document(self.forged, '"forged"')
        return self.real.fetch(known_etag)


@pytest.fixture(autouse=True)
def _one_key(world: World) -> None:
    """Each test begins with the one key that there is, in a table that names no other."""
    with transaction() as session:
        session.execute(text("TRUNCATE releases.state_keys"))
    service.keys().drop_next_state_key()


@pytest.fixture
def unit(world: World, live_server: LiveServer, tmp_path: Path) -> Iterator[Unit]:
    """A device that joined and has the newest document."""
    with make_client() as http:
        folder, time = tmp_path / "device", Time()
        identity = enrol(folder, Transport(live_server.url, http), world.enrolment_token(), TAGS, Disk(durable=False))
        made = _unit(folder, identity, Transport(live_server.url, http, identity.access_token, attempts=1), time)
        made.keeper.poll()
        time.ahead = LIMITS.keys_retry_s + 1
        yield made


def _unit(folder: Path, identity: Identity, transport: Transport, time: Time) -> Unit:
    disk, feed = Disk(durable=False), Feed(HttpStateFeed(transport))
    targets = SignedRepository(folder / "tuf", identity.tuf_root, transport, None, disk)
    keys = StateKeys(folder, identity.state_key, disk, targets, time.now)
    keeper = StateKeeper(folder, feed, identity.state_key, disk, time.now, keys)
    return Unit(identity, feed, keeper, keys, targets, time)


def again(unit: Unit, folder: Path) -> Unit:
    """The same device after a restart."""
    return _unit(folder, unit.identity, unit.feed.real._transport, unit.time)


def rotate(overlap_s: int = 30 * DAY) -> Ed25519PrivateKey:
    """Rotate, and give the key that signed before, as a thief of the folder would have it."""
    old = service.keys().state_key()
    with transaction() as session:
        state_keys.rotate(session, ADA, overlap_s, "a test")
    return old


def revoke(key: Ed25519PrivateKey) -> None:
    with transaction() as session:
        state_keys.revoke(session, ADA, public_text(key.public_key()), "a test")


def forged(key: Ed25519PrivateKey, like: DeviceState, **changes: object) -> bytes:
    return sign_state(like.model_copy(update=changes), key)


def newest() -> bytes:
    with transaction() as session:
        return bytes(session.scalars(text("SELECT document FROM releases.state_documents ORDER BY epoch DESC")).first())


def test_in_the_overlap_old_and_new_keys_are_believed_and_epochs_go_on(world: World, unit: Unit) -> None:
    before = unit.keeper.state.epoch
    old = rotate()
    document = newest()
    for key in (old.public_key(), _following().public_key()):
        assert verify_state(document, key, before + 1).epoch > before
    assert unit.keeper.poll().epoch > before


def test_an_agent_that_knows_one_key_goes_on_until_the_overlap_ends(world: World, unit: Unit) -> None:
    plain = StateKeeper(unit.keeper._path.parent / "older", unit.feed, unit.identity.state_key, Disk(durable=False))
    plain._path.parent.mkdir()
    old = rotate()
    assert plain.poll().epoch == unit.keeper.poll().epoch
    revoke(old)
    with pytest.raises(TrustError, match="not signed"):
        plain.poll()
    assert plain.known, "what it accepted stays in force"


def test_a_device_that_was_offline_during_the_whole_rotation_comes_back(world: World, unit: Unit) -> None:
    unit.feed.offline = True
    first = rotate()
    revoke(first)
    second = rotate(0)
    assert public_text(second.public_key()) != public_text(first.public_key())
    with pytest.raises(Unreachable):
        unit.keeper.poll()
    unit.feed.offline, before = False, unit.keeper.state.epoch
    assert unit.keeper.poll().epoch > before
    assert unit.keys.trusted()[0].public_bytes_raw() == service.keys().state_key().public_key().public_bytes_raw()


def test_a_killed_fleet_stays_killed_over_a_rotation_and_a_restart(world: World, unit: Unit, tmp_path: Path) -> None:
    body = {"killed": True, "reason": "smoke"}
    assert world.client.post("/releases/v1/kill-switch", token=world.operator, json=body).status_code == 200
    assert unit.keeper.poll().killed
    rotate(0)
    later = again(unit, tmp_path / "device")
    assert later.keeper.state.killed, "the stored document was signed by a key that has ended since"
    assert later.keeper.poll().killed


def test_a_replay_under_the_old_key_after_its_end_is_refused(world: World, unit: Unit) -> None:
    old = rotate()
    revoke(old)
    unit.keeper.poll()
    for epoch in (unit.keeper.state.epoch, unit.keeper.state.epoch + 100):
        unit.feed.forged = forged(old, unit.keeper.state, epoch=epoch, killed=True)
        with pytest.raises(TrustError, match="not signed"):
            unit.keeper.poll()
    assert not unit.keeper.state.killed


def test_the_overlap_ends_on_a_device_that_hears_of_it_no_more(world: World, unit: Unit) -> None:
    old = rotate(DAY)
    unit.keys.refresh()
    unit.keeper.poll()
    assert len(unit.keys.trusted()) == 2
    unit.time.ahead = DAY + 60
    unit.feed.forged = forged(old, unit.keeper.state, epoch=unit.keeper.state.epoch + 1, expires=2**40, killed=True)
    unit.targets.fetch = _unreachable  # type: ignore[method-assign]  # the thief cuts the way to the repository
    with pytest.raises(TrustError, match="not signed"):
        unit.keeper.poll()


def test_a_device_that_hears_nothing_of_its_keys_for_a_week_accepts_nothing_new(world: World, unit: Unit) -> None:
    stolen = service.keys().state_key()
    unit.targets.fetch = _unreachable  # type: ignore[method-assign]  # the thief cuts the way to the repository
    unit.feed.forged = forged(stolen, unit.keeper.state, epoch=unit.keeper.state.epoch + 1, expires=2**40, killed=True)
    unit.time.ahead = LIMITS.keys_stale_s + 1
    with pytest.raises(TrustError, match="7 days"):
        unit.keeper.poll()
    assert not unit.keeper.state.killed


def test_what_a_thief_signed_with_a_higher_epoch_does_not_hold_the_device_up(world: World, unit: Unit) -> None:
    stolen = service.keys().state_key()
    unit.feed.forged = forged(stolen, unit.keeper.state, epoch=2**60)
    assert unit.keeper.poll().epoch == 2**60, "as long as the key counts, nobody can tell"
    unit.feed.forged = b""
    revoke(rotate())
    assert unit.keeper.poll().epoch < 2**60
    assert not unit.keeper.state.killed
    unit.feed.forged = forged(stolen, unit.keeper.state, epoch=2**61)
    with pytest.raises(TrustError, match="not signed"):
        unit.keeper.poll()


def test_a_key_that_was_revoked_is_dropped_within_a_day_though_nobody_shows_the_new_one(
    world: World, unit: Unit
) -> None:
    old = rotate()
    unit.keeper.poll()
    revoke(old)
    unit.feed.forged = forged(old, unit.keeper.state, epoch=unit.keeper.state.epoch + 1, expires=2**40)
    unit.time.ahead = LIMITS.keys_fresh_s + 1
    with pytest.raises(TrustError, match="not signed"):
        unit.keeper.poll()


def test_an_older_list_of_keys_is_refused_also_after_a_restart(world: World, unit: Unit, tmp_path: Path) -> None:
    path = unit.targets.fetch(STATE_KEY_TARGET, tmp_path / "older.json")
    older = path.read_bytes()
    revoke(rotate())
    unit.keeper.poll()
    serial = unit.keys.serial
    assert serial > decode_list(older).serial
    later = again(unit, tmp_path / "device")
    assert later.keys.serial == serial
    later.targets.fetch = lambda *_given, **_more: path  # type: ignore[method-assign]  # a repository that goes back
    assert not later.keys.refresh()
    assert later.keys.serial == serial


def test_a_mirror_that_serves_older_metadata_is_refused_by_their_versions(
    world: World, unit: Unit, tmp_path: Path
) -> None:
    old_timestamp = service.objects().get("tuf/metadata/timestamp.json")
    revoke(rotate())
    unit.keeper.poll()
    new_timestamp = service.objects().get("tuf/metadata/timestamp.json")
    service.objects().put("tuf/metadata/timestamp.json", old_timestamp)
    with pytest.raises(TrustError):
        unit.targets.fetch(STATE_KEY_TARGET, tmp_path / "any.json")
    service.objects().put("tuf/metadata/timestamp.json", new_timestamp)


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"public": "x"}', b'{"keys": []}', b'{"keys": 7, "serial": 1}'])
def test_a_damaged_list_changes_nothing(world: World, unit: Unit, tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "damaged.json"
    path.write_bytes(damage)
    trusted = unit.keys.trusted()
    unit.targets.fetch = lambda *_given, **_more: path  # type: ignore[method-assign]  # signed nonsense
    unit.time.ahead = DAY + 1
    assert not unit.keys.refresh()
    assert [key.public_bytes_raw() for key in unit.keys.trusted()] == [key.public_bytes_raw() for key in trusted]
    unit.keeper.poll()


def test_the_worker_ends_an_overlap_that_is_over_and_destroys_the_old_key(world: World) -> None:
    old, following = rotate(DAY), _following()
    with transaction() as session:
        state_keys.settle(session)
        assert [one.signs for one in state_keys.status(session).keys] == [True, True], "not yet"
        session.execute(text("UPDATE releases.state_keys SET until_at = now() WHERE until_at IS NOT NULL"))
    with transaction() as session:
        state_keys.settle(session)
    with transaction() as session:
        assert [one.signs for one in state_keys.status(session).keys] == [False, True]
    assert _raw(service.keys().state_key()) == _raw(following)
    assert service.keys().next_state_key() is None
    with pytest.raises(StateError):
        verify_state(newest(), old.public_key(), 0)


def test_a_key_that_ended_signs_nothing_though_its_file_is_still_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = rotate()
    monkeypatch.setattr(FileKeyStore, "promote", lambda _self, _role: None)  # killed between commit and rename
    revoke(old)
    assert _raw(service.keys().state_key()) == _raw(old)
    with pytest.raises(UnknownSigner):
        verify_state(newest(), old.public_key(), 0)
    monkeypatch.undo()
    with transaction() as session:
        state_keys.settle(session)
    assert _raw(service.keys().state_key()) != _raw(old)


def test_a_rotation_that_failed_before_its_commit_is_begun_again_with_the_same_key(world: World) -> None:
    with pytest.raises(PowerCut):
        _cut_short()
    following = _following()
    document = verify_state(newest_or_first(world), service.keys().state_key().public_key(), 0)
    with pytest.raises(UnknownSigner):
        verify_state(newest_or_first(world), following.public_key(), document.epoch)
    rotate()
    assert verify_state(newest(), following.public_key(), document.epoch)


def test_the_following_key_can_be_given_up_instead(world: World, unit: Unit) -> None:
    rotate()
    revoke(_following())
    assert service.keys().next_state_key() is None
    document = newest()
    assert verify_state(document, public_key(unit.identity.state_key), 0)
    assert "signatures" not in json.loads(document)
    rotate()


def test_two_rotations_at_once_the_only_key_and_a_wrong_name_are_refused(world: World) -> None:
    path, only = "/releases/v1/signing-keys/rotations", public_text(service.keys().state_key().public_key())
    body = {"role": "state", "reason": "a test"}
    revocations = "/releases/v1/state-keys/revocations"
    answer = world.client.post(revocations, token=world.operator, json={"public": only, "reason": "a test"})
    assert (answer.status_code, "rotate first" in answer.text) == (409, True)
    assert world.client.post(path, token=world.operator, json=body).status_code == 204
    assert world.client.post(path, token=world.operator, json=body).status_code == 409
    answer = world.client.post(revocations, token=world.operator, json={"public": "AAAAAAAA", "reason": "a test"})
    assert answer.status_code == 404
    revoke(service.keys().state_key())
    answer = world.client.post(revocations, token=world.operator, json={"public": only, "reason": "a test"})
    assert (answer.status_code, "already" in answer.text) == (409, True)


def test_the_command_rotates_shows_and_revokes_and_the_audit_trail_says_who(
    world: World, live_server: LiveServer, tmp_path: Path
) -> None:
    described = {"base_url": live_server.url, "operator_token": world.operator}
    (tmp_path / "platform.json").write_text(json.dumps(described))

    def run(*words: str) -> str:
        with capture_logs():
            result = runner.invoke(app, ["keys", *words, "--state", str(tmp_path)])
        assert result.exit_code == 0, result.output
        return result.output

    run("rotate", "--role", "state", "--overlap-days", "2", "-m", "yearly")
    shown = json.loads(run("show", "--json"))["state_keys"]
    assert [one["signs"] for one in shown["keys"]] == [True, True]
    old = shown["keys"][0]["public"]
    assert "until" in run("show")
    assert "ended" in run("revoke", "--state-key", old[:12], "-m", "leaked")
    trail = world.client.get("/releases/v1/audit", token=world.operator, params={"action": "signing-key"}).json()
    assert [one["action"] for one in trail["items"]][:2] == ["signing-key.revoked", "signing-key.rotated"]


def test_a_folder_that_cannot_be_written_is_said_and_changes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from services.releases import keys

    def read_only(_path: Path) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(keys, "_create", read_only)
    body = {"role": STATE, "reason": "a test"}
    answer = world.client.post("/releases/v1/signing-keys/rotations", token=world.operator, json=body)
    assert answer.status_code == 503
    assert "cannot be changed here" in answer.json()["detail"]
    with transaction() as session:
        assert session.query(StateKeyRow).filter(StateKeyRow.until_at.is_not(None)).count() == 0


def test_light_devices_follow_too(world: World, live_server: LiveServer) -> None:
    (joined,) = world.enrol(1, "0" * 96)

    async def live() -> Counter[str]:
        client, mail = LightClient(live_server.url), LightClient(live_server.url)
        documents = SharedDocuments(public_key(joined.state_key))
        around = Surroundings(client, mail, documents, SharedTargets(client), {}, Counter(), 0)
        devices = [LightDevice(Ticket(joined.id, joined.token, TAGS), around) for _ in range(3)]
        await asyncio.gather(*(device.turn() for device in devices))
        first = devices[0].state
        await asyncio.to_thread(lambda: revoke(rotate()))
        await asyncio.gather(*(device.turn() for device in devices))
        assert first is not None
        assert devices[0].state is not None
        assert devices[0].state.epoch > first.epoch
        await client.close()
        await mail.close()
        return around.counters

    counted = asyncio.run(live())
    assert not counted["UnknownSigner"] + counted["TrustError"] + counted["Unreachable"]


def _cut_short() -> None:
    with transaction() as session:
        state_keys.rotate(session, ADA, DAY, "a test")
        raise PowerCut


def newest_or_first(world: World) -> bytes:
    return world.client.get("/releases/v1/state", token=world.enrol(1, "0" * 96)[0].token).content


def _following() -> Ed25519PrivateKey:
    found = service.keys().next_state_key()
    assert found is not None
    return found


def _raw(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes_raw()


def _unreachable(*_given: object, **_more: object) -> Path:
    raise Unreachable("no network")
