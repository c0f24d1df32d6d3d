"""A device's key: proved at joining, rotated with proof of the old one, never used again, revoked by an operator."""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner

from contracts.device import DeviceTags
from contracts.state import public_text
from contracts.wire.enrolment import enrolment_proof, rotation_proof
from edge_agent.cli import app as agent
from edge_agent.disk import Disk
from edge_agent.enrol import KEY_FILE, Identity, device_key, enrol
from edge_agent.errors import EnrolmentError, Unreachable
from edge_agent.key_rotation import NEXT_FILE, finish_rotation, rotate_key
from edge_agent.transport import Answer, Transport, make_client
from services.kit.database import transaction
from services.kit.known_tokens import KNOWN
from services.releases.models import Device
from tests.releases.world import World, enrolment
from tests.support.agent_twin import PowerCut
from tests.support.crash_disk import CRASHES, CrashDisk, Failure
from tests.support.http import LiveServer

ENROLMENTS, ROTATIONS = "/releases/v1/enrolments", "/releases/v1/device-keys/rotations"
TAGS = DeviceTags(device_class="npu-4t")


class Unit:
    """A device with a real key, as far as the API sees it."""

    def __init__(self, world: World) -> None:
        self.world, self.key = world, Ed25519PrivateKey.generate()
        answer = self.enrol(world.enrolment_token())
        assert answer.status_code == 201, answer.text
        self.id, self.token = answer.json()["device_id"], answer.json()["access_token"]

    def enrol(self, token: str, proved: bool = True, key: Ed25519PrivateKey | None = None) -> httpx.Response:
        body = enrolment(token, {"device_class": "npu-4t"}, key=(key or self.key).public_key().public_bytes_raw())
        if proved:
            body["proof"] = sign(self.key, enrolment_proof(token, body["public_key"]))
        return self.world.client.post(ENROLMENTS, json=body)

    def rotation(self, new: Ed25519PrivateKey, by: Ed25519PrivateKey | None = None) -> dict[str, Any]:
        proof = rotation_proof(self.id, text(self.key), text(new))
        return {"public_key": text(new), "by_old": sign(by or self.key, proof), "by_new": sign(new, proof)}

    def rotate(self, body: dict[str, Any]) -> httpx.Response:
        return self.world.client.post(ROTATIONS, token=self.token, json=body)

    def speak(self) -> int:
        body = {"tags": {"device_class": "npu-4t"}, "running_digest": "", "slot_stage": "confirmed", "state_epoch": 0}
        return self.world.client.post("/releases/v1/feedback", token=self.token, json=body).status_code

    def kept(self) -> str:
        with transaction() as session:
            return session.get_one(Device, self.id).public_key


def text(key: Ed25519PrivateKey) -> str:
    return public_text(key.public_key())


def sign(key: Ed25519PrivateKey, data: bytes) -> str:
    return base64.b64encode(key.sign(data)).decode()


@pytest.fixture
def unit(world: World) -> Unit:
    return Unit(world)


def test_a_new_key_takes_the_place_of_the_old_one_and_a_repeat_changes_nothing(unit: Unit) -> None:
    new = Ed25519PrivateKey.generate()
    body = unit.rotation(new)
    first, again = unit.rotate(body), unit.rotate(body)
    assert (first.status_code, first.json()["duplicate"]) == (200, False)
    assert (again.status_code, again.json()["duplicate"]) == (200, True)
    assert unit.kept() == text(new)
    assert unit.speak() == 202


def test_without_proof_of_the_old_key_or_of_the_new_one_nothing_changes(world: World, unit: Unit) -> None:
    new, thief, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate(), Unit(world)
    good, before = unit.rotation(new), unit.kept()
    foreign = {**other.rotation(new)}
    for body in (
        unit.rotation(new, by=thief),
        {**good, "by_new": good["by_old"]},
        {**good, "public_key": text(thief)},
        {**good, "by_old": "A" * 88},
        {**good, "by_old": "!" * 88},
        {**good, "public_key": "!" * 44},
        foreign,
    ):
        answer = unit.rotate(body)
        assert answer.status_code == 403, answer.text
        assert answer.json()["type"] == "/problems/device-key-refused"
    assert unit.kept() == before


def test_a_key_that_was_given_up_or_is_anothers_is_never_taken_again(world: World, unit: Unit) -> None:
    old, new, other = unit.key, Ed25519PrivateKey.generate(), Unit(world)
    assert unit.rotate(unit.rotation(new)).status_code == 200
    replay, unit.key = unit.rotation(new), new
    assert unit.rotate(unit.rotation(old)).status_code == 403, "its own former one"
    assert unit.rotate(unit.rotation(other.key)).status_code == 403, "that of another device"
    newest = Ed25519PrivateKey.generate()
    assert unit.rotate(unit.rotation(newest)).status_code == 200
    assert unit.rotate(replay).status_code == 403, "a recorded rotation does not turn back"
    assert unit.kept() == text(newest)
    stranger = unit.world.client.post(
        ENROLMENTS,
        json=enrolment(world.enrolment_token(), {"device_class": "npu-4t"}, key=old.public_key().public_bytes_raw()),
    )
    assert stranger.status_code == 401, "a thief of the former key does not join with it"


def test_two_rotations_at_once_leave_one_of_the_keys(unit: Unit) -> None:
    keys = [Ed25519PrivateKey.generate() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda key: unit.rotate(unit.rotation(key)).status_code, keys))
    assert sorted(answers) == [200, 403, 403, 403]
    assert unit.kept() == text(keys[answers.index(200)])


def test_a_service_or_an_operator_rotates_no_devices_key(world: World, unit: Unit) -> None:
    body = unit.rotation(Ed25519PrivateKey.generate())
    for token in (world.service, world.operator):
        assert world.client.post(ROTATIONS, token=token, json=body).status_code == 403


def test_one_token_for_one_device_lets_in_one_of_many_that_come_at_once(world: World) -> None:
    token = world.enrolment_token(uses=1)
    tries = [enrolment(token, {"device_class": "npu-4t"}) for _ in range(12)]
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda body: world.client.post(ENROLMENTS, json=body).status_code, tries))
    assert sorted(answers) == [201, *[401] * 11]


def test_one_key_that_comes_with_many_tokens_at_once_is_one_device(world: World) -> None:
    tokens = [world.enrolment_token(uses=1) for _ in range(6)]
    key = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    bodies = [enrolment(token, {"device_class": "npu-4t"}, key=key) for token in tokens]
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda body: world.client.post(ENROLMENTS, json=body), bodies))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["device_id"] for answer in answers}) == 1


def test_a_device_that_has_spoken_joins_again_with_proof_only(world: World, unit: Unit) -> None:
    assert unit.enrol(world.enrolment_token(), proved=False).status_code == 201, "an older agent that lost the answer"
    unit.token = unit.enrol(world.enrolment_token()).json()["access_token"]
    assert unit.speak() == 202
    assert unit.enrol(world.enrolment_token(), proved=False).status_code == 401
    again = unit.enrol(world.enrolment_token())
    assert (again.status_code, again.json()["device_id"]) == (201, unit.id)


def test_a_proof_by_another_key_or_for_another_token_lets_nobody_in(world: World, unit: Unit) -> None:
    thief = Ed25519PrivateKey.generate()
    assert unit.enrol(world.enrolment_token(), key=thief).status_code == 401
    token = world.enrolment_token()
    body = enrolment(token, {"device_class": "npu-4t"}, key=unit.key.public_key().public_bytes_raw())
    body["proof"] = sign(unit.key, enrolment_proof(world.enrolment_token(), body["public_key"]))
    assert world.client.post(ENROLMENTS, json=body).status_code == 401


def test_a_revoked_device_is_out_at_once_and_joins_again_only_when_it_is_allowed(world: World, unit: Unit) -> None:
    path = f"/releases/v1/devices/{unit.id}/revocations"
    answer = world.client.post(path, token=world.operator, json={"reason": "stolen"})
    assert (answer.status_code, answer.json()["tokens"]) == (201, 1)
    assert unit.speak() == 401
    assert unit.rotate(unit.rotation(Ed25519PrivateKey.generate())).status_code == 401
    KNOWN.clear()
    assert world.client.get("/releases/v1/state", token=unit.token).status_code == 401
    assert unit.enrol(world.enrolment_token()).status_code == 401
    lifted = world.client.post(path, token=world.operator, json={"reason": "found", "lift": True})
    assert lifted.json()["revoked"] is False
    again = unit.enrol(world.enrolment_token())
    assert (again.status_code, again.json()["device_id"]) == (201, unit.id)
    trail = world.client.get("/releases/v1/audit", token=world.operator, params={"subject": f"device:{unit.id}"}).json()
    assert [one["action"] for one in trail["items"]] == ["device.allowed", "device.revoked"]
    missing = world.client.post("/releases/v1/devices/nobody/revocations", token=world.operator, json={"reason": "x"})
    assert missing.status_code == 404


def joined(world: World, url: str, folder: Path, client: httpx.Client) -> tuple[Identity, Transport]:
    identity = enrol(folder, Transport(url, client), world.enrolment_token(), TAGS, Disk(durable=False))
    return identity, Transport(url, client, identity.access_token, attempts=1)


def test_a_real_agent_rotates_and_asks_for_bundle_keys_with_the_new_key(
    world: World, live_server: LiveServer, tmp_path: Path
) -> None:
    with make_client() as http:
        identity, transport = joined(world, live_server.url, tmp_path, http)
        before = text(device_key(tmp_path, Disk()))
        after = rotate_key(tmp_path, transport, identity, Disk(durable=False))
    with transaction() as session:
        assert session.get_one(Device, identity.device_id).public_key == after != before
    assert text(device_key(tmp_path, Disk())) == after
    assert not (tmp_path / NEXT_FILE).exists()
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600


class LostAnswer(Transport):
    """The platform hears; the answer never comes."""

    def post(self, path: str, body: bytes, media: str = "application/json") -> Answer:
        super().post(path, body, media)
        raise Unreachable("the answer was lost")


def test_a_lost_answer_is_made_good_at_the_next_start(world: World, live_server: LiveServer, tmp_path: Path) -> None:
    with make_client() as http:
        identity, transport = joined(world, live_server.url, tmp_path, http)
        losing = LostAnswer(live_server.url, http, identity.access_token, attempts=1)
        with pytest.raises(Unreachable):
            rotate_key(tmp_path, losing, identity, Disk(durable=False))
        assert (tmp_path / NEXT_FILE).exists()
        finish_rotation(tmp_path, transport, identity, Disk(durable=False))
    with transaction() as session:
        assert session.get_one(Device, identity.device_id).public_key == text(device_key(tmp_path, Disk()))


@pytest.mark.parametrize("failure", CRASHES)
def test_a_power_cut_at_any_step_leaves_a_key_that_the_platform_knows(
    world: World, live_server: LiveServer, tmp_path: Path, failure: Failure
) -> None:
    with make_client() as http:
        for at in range(1, 60):
            folder = tmp_path / str(at)
            identity, transport = joined(world, live_server.url, folder, http)
            disk = CrashDisk(at=at, failure=failure, seed=at)
            disk.adopt(folder)
            try:
                rotate_key(folder, transport, identity, disk)
            except PowerCut:
                disk.crash()
            finish_rotation(folder, transport, identity, Disk(durable=False))
            with transaction() as session:
                assert session.get_one(Device, identity.device_id).public_key == text(device_key(folder, Disk()))
            if not disk.failed:
                return
    raise AssertionError("the rotation has more than 60 operations")


def test_the_command_rotates_and_says_who_it_is(world: World, live_server: LiveServer, tmp_path: Path) -> None:
    with make_client() as http:
        identity, _ = joined(world, live_server.url, tmp_path, http)
    result = CliRunner().invoke(
        agent, ["rotate-key", "--state-dir", str(tmp_path), "--platform-url", live_server.url, "--json"]
    )
    assert result.exit_code == 0, result.output
    assert identity.device_id in result.output
    with pytest.raises(EnrolmentError, match="the old one stays"), make_client() as http:
        rotate_key(tmp_path, Transport(live_server.url, http, world.service, attempts=1), identity, Disk())
