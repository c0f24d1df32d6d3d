"""hawkBit's DDI as its clients use it: register, deploy, resume, cancel, consent; and every refusal it documents."""

from __future__ import annotations

import hashlib
from typing import Any

import httpx
import pytest

from contracts.wire.releases import RolloutState
from services.kit.database import transaction
from services.releases.ddi import actions, states
from services.releases.models import DdiAction, Device, Exposure
from tests.releases.conftest import OLD
from tests.releases.world import World

ROOT = "/releases/ddi/DEFAULT/controller/v1"


class Client:
    """A DDI device behind a gateway, or with its own token."""

    def __init__(self, world: World, name: str, authorization: str) -> None:
        self.world, self.name, self.authorization = world, name, authorization
        self.base = f"{ROOT}/{name}"

    def get(self, path: str = "", **headers: str) -> httpx.Response:
        given = {
            "Authorization": self.authorization,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        return self.world.client.get(self._path(path), headers=given)

    def send(self, method: str, path: str, body: Any = None) -> httpx.Response:
        headers = {"Authorization": self.authorization}
        return self.world.client.request(method, self._path(path), headers=headers, json=body)

    def link(self, name: str) -> str | None:
        """The path behind a link of a poll."""
        answer = self.get()
        assert answer.status_code == 200, answer.text
        found = answer.json()["_links"].get(name)
        return None if found is None else str(found["href"]).removeprefix("http://edgeloop.test")

    def say(self, link: str, execution: str, finished: str = "none") -> httpx.Response:
        status = {"execution": execution, "result": {"finished": finished}, "details": ["a test"], "unknown": 1}
        return self.send("POST", f"{link}/feedback", {"id": "1", "time": "20261130T000000", "status": status})

    def configure(self, **data: str) -> httpx.Response:
        return self.send("PUT", "/configData", {"mode": "merge", "data": data})

    def _path(self, path: str) -> str:
        return path if path.startswith("/releases") else self.base + path


@pytest.fixture
def gateway(world: World) -> str:
    answer = world.client.post("/releases/v1/ddi/gateway-tokens", token=world.operator)
    assert answer.status_code == 201
    return f"GatewayToken {answer.json()['token']}"


@pytest.fixture
def device(world: World, gateway: str) -> Client:
    """A configured device of class npu-2t."""
    made = Client(world, "cam-1", gateway)
    assert made.get().status_code == 200
    assert made.configure(device_class="npu-2t", network="wifi", serial="never a tag").status_code == 200
    return made


def deploy(world: World, **options: Any) -> tuple[str, str]:
    """A bundle for everyone: digest and rollout."""
    digest = world.register(**options)
    rollout = world.rollout(digest, stages=[10_000])
    return digest, rollout.id


def link_of(device: Client, name: str) -> str:
    link = device.link(name)
    assert link is not None
    return link


def test_the_first_contact_registers_a_device_and_asks_for_its_attributes(world: World, gateway: str) -> None:
    fresh = Client(world, "cam-9", gateway)
    answer = fresh.get().json()
    assert answer["config"]["polling"]["sleep"] == "00:00:30"
    assert list(answer["_links"]) == ["configData"]
    fresh.configure(device_class="npu-4t", region="eu", network="NOT a tag!")
    assert fresh.link("configData") is None
    with transaction() as session:
        known = session.get_one(Device, "cam-9")
        assert known.device_class == "npu-4t"
        assert (known.tags["region"], known.tags["network"]) == ("eu", "unknown")


def test_a_job_has_all_that_known_clients_insist_on(world: World, device: Client) -> None:
    deploy(world, version="2.5.0")
    job = device.get(link_of(device, "deploymentBase")).json()
    assert 0 < int(job["id"]) < 2**31
    assert (job["deployment"]["download"], job["deployment"]["update"]) == ("forced", "forced")
    (chunk,) = job["deployment"]["chunks"]
    assert (chunk["part"], chunk["version"]) == ("bApp", "2.5.0")
    (artifact,) = chunk["artifacts"]
    assert isinstance(artifact["size"], int)
    assert set(artifact["hashes"]) == {"sha1", "md5", "sha256"}
    assert {"download", "download-http"} <= set(artifact["_links"])


def test_a_download_that_was_cut_goes_on_by_range_and_hashes_right(world: World, device: Client) -> None:
    digest, _ = deploy(world)
    job = device.get(link_of(device, "deploymentBase")).json()
    artifact = job["deployment"]["chunks"][0]["artifacts"][0]
    path = artifact["_links"]["download"]["href"].removeprefix("http://edgeloop.test")
    half = artifact["size"] // 2
    first = device.get(path, Range=f"bytes=0-{half - 1}")
    rest = device.get(path, Range=f"bytes={half}-")
    assert (first.status_code, rest.status_code) == (206, 206)
    data = first.content + rest.content
    for name, expected in artifact["hashes"].items():
        assert hashlib.new(name, data).hexdigest() == expected
    assert hashlib.sha384(data).hexdigest() == digest
    assert device.get(path, Range=f"bytes={artifact['size']}-").status_code == 416
    assert device.get(path, If_Match=f'"{artifact["hashes"]["sha1"]}"').status_code == 200
    assert device.get(path, If_Match='"0000"').status_code == 412
    line = device.get(artifact["_links"]["md5sum"]["href"].removeprefix("http://edgeloop.test"))
    assert line.text == f"{artifact['hashes']['md5']}  {artifact['filename']}"


@pytest.mark.parametrize("finished", ["success", "none"])
def test_closed_with_success_or_none_is_an_installation(world: World, device: Client, finished: str) -> None:
    digest, rollout = deploy(world)
    link = link_of(device, "deploymentBase")
    for execution in ("download", "downloaded", "proceeding"):
        assert device.say(link, execution).status_code == 200
    assert device.say(link, "closed", finished).status_code == 200
    with transaction() as session:
        row = session.get_one(Exposure, (rollout, "cam-1"))
        assert row.confirmed
        assert not row.failed
        assert session.get_one(Device, "cam-1").running_digest == digest
    assert device.link("deploymentBase") is None
    installed = device.get(link_of(device, "installedBase")).json()
    assert installed["deployment"]["chunks"][0]["version"] == "1.0.0"


def test_a_failure_counts_against_the_bundle_and_is_not_offered_again_until_somebody_asks_anew(
    world: World, device: Client
) -> None:
    digest, rollout = deploy(world)
    device.say(link_of(device, "deploymentBase"), "closed", "failure")
    with transaction() as session:
        assert session.get_one(Exposure, (rollout, "cam-1")).failed
    assert device.link("deploymentBase") is None
    world.act(rollout, "rollback")
    world.clock.sleep(10)
    world.rollout(digest, token=world.operator, stages=[10_000])
    assert device.link("deploymentBase") is not None


def test_feedback_on_an_action_that_ended_is_gone(world: World, device: Client) -> None:
    deploy(world)
    link = link_of(device, "deploymentBase")
    assert device.say(link, "closed", "success").status_code == 200
    assert device.say(link, "proceeding").status_code == 410
    assert device.get(link).status_code == 404


def test_a_withdrawn_release_is_cancelled_and_the_device_accepts_by_closing(world: World, device: Client) -> None:
    _, rollout = deploy(world)
    job = link_of(device, "deploymentBase")
    world.act(rollout, "rollback")
    link = link_of(device, "cancelAction")
    assert device.link("deploymentBase") is None
    assert device.get(job).status_code == 404, "the job is not to be had while it is being cancelled"
    stop = device.get(link).json()
    assert stop["cancelAction"]["stopId"] == stop["id"]
    assert device.say(link, "canceled").status_code == 200
    assert device.link("cancelAction") is not None, "only closed accepts"
    assert device.say(link, "closed", "success").status_code == 200
    assert device.link("cancelAction") is None
    assert device.say(link, "closed", "success").status_code == 410


def test_a_device_may_refuse_a_cancel_and_finish(world: World, device: Client) -> None:
    digest, rollout = deploy(world)
    job = link_of(device, "deploymentBase")
    world.act(rollout, "rollback")
    link = link_of(device, "cancelAction")
    assert device.say(link, "rejected").status_code == 200
    with transaction() as session:
        assert session.get_one(DdiAction, int(job.rpartition("/")[2])).state == states.OPEN
    assert device.say(job, "closed", "success").status_code == 200
    with transaction() as session:
        assert session.get_one(Device, "cam-1").running_digest == digest


def test_a_stopped_fleet_cancels_what_is_under_way(world: World, gateway: str) -> None:
    digest = world.register()
    world.enrol(4, digest)
    assert world.rollout(digest).state is RolloutState.COMPLETED, "it is the baseline now"
    late = Client(world, "cam-5", gateway)
    assert late.link("deploymentBase") is not None
    world.client.post("/releases/v1/kill-switch", token=world.operator, json={"killed": True, "reason": "smoke"})
    assert late.link("cancelAction") is not None


def test_a_user_who_denies_is_asked_once_and_one_who_confirms_lets_it_go_on(world: World, device: Client) -> None:
    deploy(world)
    assert device.send("POST", "/confirmationBase/deactivateAutoConfirm").status_code == 200
    assert device.get("/confirmationBase").json() == {"autoConfirm": {"active": False}}
    link = link_of(device, "confirmationBase")
    assert device.link("deploymentBase") is None
    assert "chunks" in device.get(link).json()["confirmation"]
    said = device.send("POST", f"{link}/feedback", {"confirmation": "denied", "details": ["not now"]})
    assert said.status_code == 200
    assert device.link("confirmationBase") is None
    assert device.send("POST", f"{link}/feedback", {"confirmation": "confirmed"}).status_code == 410
    world.clock.sleep(10)
    deploy(world)
    again = link_of(device, "confirmationBase")
    assert device.send("POST", f"{again}/feedback", {"confirmation": "confirmed"}).status_code == 200
    assert device.link("deploymentBase") is not None
    assert device.send("POST", "/confirmationBase/activateAutoConfirm").status_code == 200


def test_a_device_with_its_own_token_speaks_for_itself_alone(world: World) -> None:
    own, other = world.enrol(2, OLD)
    for scheme in ("TargetToken", "Bearer", "targettoken"):
        assert Client(world, own.id, f"{scheme} {own.token}").get().status_code == 200
    assert Client(world, other.id, f"TargetToken {own.token}").get().status_code == 401


@pytest.mark.parametrize(
    "authorization", ["", "TargetToken", "TargetToken nonsense", "Basic abc", "GatewayToken el_a_b"]
)
def test_without_a_valid_token_the_answer_is_401(world: World, authorization: str) -> None:
    assert Client(world, "cam-1", authorization).get().status_code == 401


def test_what_is_not_there_is_404_and_what_does_not_parse_422(world: World, device: Client, gateway: str) -> None:
    deploy(world)
    link = link_of(device, "deploymentBase")
    number = int(link.rpartition("/")[2])
    for path in (
        f"/deploymentBase/{number + 1}",
        f"/deploymentBase/{2**40}",
        f"/cancelAction/{number}",
        f"/installedBase/{number}",
        f"/confirmationBase/{number}",
        "/softwaremodules/999/artifacts",
        "/softwaremodules/999/artifacts/none.elb",
    ):
        assert device.get(path).status_code == 404, path
    other = Client(world, "cam-2", gateway)
    assert other.get(f"/deploymentBase/{number}").status_code == 404, "another device's action"
    foreign = world.client.get("/releases/ddi/OTHER/controller/v1/cam-1", headers={"Authorization": gateway})
    assert foreign.status_code == 404
    assert device.send("POST", f"{link}/feedback", {"status": {"execution": "dancing"}}).status_code == 422
    assert device.send("PUT", "/configData", {"data": {str(n): "x" for n in range(101)}}).status_code == 422
    assert device.send("DELETE", "").status_code == 405


def test_an_action_takes_a_bounded_number_of_statuses(
    world: World, device: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "MOST_HISTORY", 3)
    deploy(world)
    link = link_of(device, "deploymentBase")
    assert [device.say(link, "proceeding").status_code for _ in range(4)] == [200, 200, 200, 429]


def test_repeated_feedback_and_polls_change_nothing_twice(world: World, device: Client) -> None:
    deploy(world)
    links = {device.link("deploymentBase") for _ in range(5)}
    assert len(links) == 1
    link = link_of(device, "deploymentBase")
    for _ in range(3):
        assert device.say(link, "proceeding").status_code == 200
    with transaction() as session:
        assert session.query(DdiAction).count() == 1


def test_a_release_judged_on_ddi_devices_alone_is_never_promoted(world: World, device: Client) -> None:
    _, rollout = deploy(world)
    device.say(link_of(device, "deploymentBase"), "closed", "success")
    world.run(rollout, rounds=1)
    assert world.look(rollout).state is RolloutState.RUNNING


def test_a_client_that_sends_its_whole_log_is_heard_and_its_last_words_are_kept(world: World, device: Client) -> None:
    deploy(world)
    link = link_of(device, "deploymentBase")
    log = [*("x" * 600 for _ in range(80)), "why it failed"]
    status = {"execution": "closed", "result": {"finished": "failure"}, "details": log}
    assert device.send("POST", f"{link}/feedback", {"id": 1, "status": status}).status_code == 200
    with transaction() as session:
        action = session.get_one(DdiAction, int(link.rpartition("/")[2]))
        assert action.state == states.FAILED
        assert action.history[-1]["messages"][-1] == "why it failed"
        assert max(len(one) for one in action.history[-1]["messages"]) == 512
