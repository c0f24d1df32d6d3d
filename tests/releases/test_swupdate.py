"""Debian's `swupdate` against our DDI adapter: a client that others wrote installs, resumes, cancels and refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from services.kit.database import transaction
from services.releases.ddi import states
from services.releases.models import DdiAction, Device
from tests.releases import swupdate
from tests.releases.swupdate import Client, Network, Signer, image, wait
from tests.releases.world import World, bundle_bytes
from tests.support.http import LiveServer

SIZE = 1_500_000
NAME = "camera-1"

pytestmark = pytest.mark.skipif(
    swupdate.BINARY is None, reason="no `swupdate` here: apt-get install swupdate, and these tests run"
)


@dataclass
class Scene:
    """A registered bundle, its signed image, the network and the device."""

    world: World
    network: Network
    device: Client
    bundle: bytes
    digest: str
    image: bytes

    def offer(self) -> str:
        """Hand the image in and roll the bundle out to everybody; returns the rollout."""
        answer = self.world.client.put(
            f"/releases/v1/ddi/images/{self.digest}",
            token=self.world.operator,
            content=self.image,
            headers={"Content-Type": "application/octet-stream"},
        )
        assert answer.status_code == 200, answer.text
        return self.world.rollout(self.digest, token=self.world.operator, stages=[10_000]).id

    def registered(self) -> None:
        """Let the device make itself known."""
        with self.device.polling(self.network.port):
            wait(lambda: self.device_class() == "npu-2t", self.device, "registering")

    def device_class(self) -> str:
        with transaction() as session:
            known = session.get(Device, NAME)
            return known.device_class if known else ""

    def state(self) -> str:
        """State of the newest action."""
        with transaction() as session:
            action = session.query(DdiAction).order_by(DdiAction.id.desc()).first()
            return action.state if action else ""

    def said(self) -> list[str]:
        """What the device said of the newest action."""
        with transaction() as session:
            action = session.query(DdiAction).order_by(DdiAction.id.desc()).first()
            return [one["status"] for one in action.history] if action else []


@pytest.fixture
def scene(world: World, live_server: LiveServer, tmp_path: Path) -> Iterator[Scene]:
    signer = Signer.fresh()
    bundle = bundle_bytes(tmp_path, program_bytes=SIZE)
    digest = world.register(data=bundle)
    token = world.client.post("/releases/v1/ddi/gateway-tokens", token=world.operator).json()["token"]
    device = Client(NAME, tmp_path / "device", token, signer.pem())
    with Network(live_server.port).running() as network:
        yield Scene(world, network, device, bundle, digest, image(bundle, signer, device.folder))


def test_it_registers_installs_a_release_and_confirms_it_after_a_restart(scene: Scene) -> None:
    scene.registered()
    scene.offer()
    with scene.device.polling(scene.network.port):
        wait(lambda: "proceeding" in scene.said(), scene.device, "installing")
        wait(lambda: scene.device.installed == scene.bundle, scene.device, "the bundle in its place")
    with scene.device.polling(scene.network.port, confirm=2):
        wait(lambda: scene.state() == states.FINISHED, scene.device, "confirming")
    with transaction() as session:
        assert session.get_one(Device, NAME).running_digest == scene.digest


def test_a_download_that_is_cut_half_way_goes_on_where_it_was(scene: Scene) -> None:
    scene.registered()
    scene.network.cut_at = len(scene.image) // 2
    scene.offer()
    with scene.device.polling(scene.network.port):
        wait(lambda: scene.device.installed == scene.bundle, scene.device, "resuming")
    (asked,) = scene.network.ranges()
    begun = int(asked.removeprefix("bytes=").rstrip("-"))
    assert len(scene.image) // 4 < begun < len(scene.image), "not from the beginning"


def test_a_release_that_is_withdrawn_during_the_download_is_cancelled_and_not_installed(scene: Scene) -> None:
    scene.registered()
    scene.network.slow_s = 0.1
    rollout = scene.offer()
    with scene.device.polling(scene.network.port):
        wait(lambda: scene.state() == states.OPEN, scene.device, "beginning")
        wait(lambda: any("/artifacts/" in head for head in scene.network.requests), scene.device, "downloading")
        assert scene.world.act(rollout, "rollback").status_code == 200
        wait(lambda: scene.state() == states.CANCELED, scene.device, "cancelling")
    assert scene.device.installed is None


def test_one_flipped_byte_is_refused_and_counts_as_a_failure(scene: Scene) -> None:
    scene.registered()
    scene.network.flip_at = len(scene.image) - SIZE // 2
    scene.offer()
    with scene.device.polling(scene.network.port):
        wait(lambda: scene.state() == states.FAILED, scene.device, "refusing")
    assert scene.device.installed is None


def test_an_image_that_another_key_signed_is_refused(scene: Scene) -> None:
    scene.registered()
    scene.image = image(scene.bundle, Signer.fresh(), scene.device.folder)
    scene.offer()
    with scene.device.polling(scene.network.port):
        wait(lambda: scene.state() == states.FAILED, scene.device, "refusing")
    assert scene.device.installed is None
