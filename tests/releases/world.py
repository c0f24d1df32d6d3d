"""A small world around the real releases service: enrolled devices that report, bundles, a clock that a test moves."""

from __future__ import annotations

import base64
import itertools
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from contracts.bundle import write_bundle
from contracts.device import DeviceTags
from contracts.state import DeviceState, choose_target, public_key, verify_state
from contracts.wire import EnrolmentRequest, FeedbackBatch, Rollout
from services.kit.database import transaction
from services.releases import feedback, ticks
from services.releases.enrolment import enrol
from tests.support.http import ApiClient
from tests.support.platform import Tokens

HOUR = 3_600.0
_numbers = itertools.count(1)


class ManualClock:
    """The platform's clock, moved by hand."""

    def __init__(self, start: float = 1_900_000_000.0) -> None:
        self.time = start

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


def bundle_bytes(
    folder: Path,
    version: str = "1.0.0",
    epoch: int = 1,
    targets: tuple[str, ...] = ("npu-2t", "npu-4t"),
    program_bytes: int = 88,
) -> bytes:
    """A well-formed bundle file with one program piece a target, different on every call."""
    build_id = next(_numbers).to_bytes(16, "big")
    program = bytes(24) + build_id + os.urandom(program_bytes)
    path = folder / f"{build_id.hex()}.elb"
    pieces = {f"{target}/model.npu": program for target in targets}
    write_bundle(path, pieces, build_id=build_id, release_version=version, security_epoch=epoch)
    return path.read_bytes()


@dataclass
class FakeDevice:
    """A device that obeys the state document; what it measures is the test's choice."""

    id: str
    token: str
    tags: DeviceTags
    state_key: str
    running: str
    sequence: int = 0
    reports: int = 0
    failed: set[str] = field(default_factory=set)


class World:
    """Drives the real API the way devices, operators and the worker do."""

    def __init__(self, client: ApiClient, tokens: Tokens, clock: ManualClock, folder: Path) -> None:
        self.client, self.clock, self.folder = client, clock, folder
        self.operator, self.service = tokens.operator, tokens.service
        self.devices: list[FakeDevice] = []

    def register(self, **options: Any) -> str:
        return self.upload(self.service, **options)

    def upload(self, token: str, notes: str = "", **options: Any) -> str:
        answer = self.try_upload(token, notes, **options)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["digest"])

    def try_upload(self, token: str, notes: str = "", data: bytes = b"", **options: Any) -> httpx.Response:
        return self.client.post(
            "/releases/v1/bundles/uploads",
            token=token,
            params={"notes": notes},
            content=data or bundle_bytes(self.folder, **options),
            headers={"Content-Type": "application/octet-stream"},
        )

    def enrolment_token(self, uses: int = 1_000, ttl_s: int = 600) -> str:
        body = {"uses": uses, "ttl_s": ttl_s}
        answer = self.client.post("/releases/v1/enrolment-tokens", token=self.operator, json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["token"])

    def enrol(self, count: int, running: str, **tags: str) -> list[FakeDevice]:
        token, made = self.enrolment_token(), []
        for index in range(count):
            names = {"device_class": ("npu-2t", "npu-4t")[index % 2], **tags}
            request = EnrolmentRequest.model_validate(enrolment(token, names, running))
            with transaction() as session:  # the route's own function, as in `live`
                body = enrol(session, request)
            made.append(FakeDevice(body.device_id, body.access_token, request.tags, body.state_key, running))
        self.devices += made
        return made

    def state(self, device: FakeDevice) -> DeviceState:
        answer = self.client.get("/releases/v1/state", token=device.token)
        assert answer.status_code == 200, answer.text
        return verify_state(answer.content, public_key(device.state_key), 0)

    def rollout(self, digest: str, token: str | None = None, **options: Any) -> Rollout:
        body = {"digest": digest, "auto_start": True, "soak_s": HOUR, **options}
        answer = self.client.post("/releases/v1/rollouts", token=token or self.service, json=body)
        assert answer.status_code == 201, answer.text
        return Rollout.model_validate(answer.json())

    def look(self, rollout_id: str) -> Rollout:
        return Rollout.model_validate(self.client.get(f"/releases/v1/rollouts/{rollout_id}", token=self.service).json())

    def act(self, rollout_id: str, action: str, **options: Any) -> httpx.Response:
        path = f"/releases/v1/rollouts/{rollout_id}/{action}"
        return self.client.post(path, token=options.pop("token", self.operator), json={"reason": "a test"}, **options)

    def live(self, bad_class: str | None = None, harm: dict[str, float] | None = None) -> None:
        """Every device polls, installs what it should, and reports one window of health."""
        if not self.devices:
            return
        state = self.state(self.devices[0])
        with transaction() as session:  # the route's own function: hundreds of requests would only cost time
            for device in self.devices:
                batch = self._live(device, state, bad_class, harm or {})
                feedback.receive(session, device.id, batch, self.clock.now())

    def _live(
        self, device: FakeDevice, state: DeviceState, bad_class: str | None, harm: dict[str, float]
    ) -> FeedbackBatch:
        target = choose_target(state, device.id, device.tags)
        installs: list[dict[str, Any]] = []
        if target and target.digest != device.running and target.digest not in device.failed:
            installs.append(self.event(device, target.digest, "trial"))
            if device.tags.device_class == bad_class:
                device.failed.add(target.digest)
                installs.append(self.event(device, target.digest, "rolled_back", "driver_errors"))
            else:
                device.running = target.digest
                installs.append(self.event(device, target.digest, "confirmed"))
        new = any(entry.target.digest == device.running for entry in state.rollouts)
        health = [self.report(device, **(harm if new else {}))]
        return FeedbackBatch.model_validate(self.batch(device, installs, health))

    def event(self, device: FakeDevice, digest: str, stage: str, cause: str = "none") -> dict[str, Any]:
        device.sequence += 1
        number = device.sequence
        return {
            "event_id": f"e{number}",
            "digest": digest,
            "stage": stage,
            "cause": cause,
            "sequence": number,
        }

    def report(self, device: FakeDevice, **harm: float) -> dict[str, Any]:
        device.sequence += 1
        wobble = int(device.id[:4], 16) % 20 / 20
        return {
            "report_id": f"h{device.sequence}",
            "digest": device.running,
            "sequence": device.sequence,
            "frames": 100,
            "upscaled": 100,
            "latency_p50_ms": 20.0,
            "latency_p99_ms": 22.0 + wobble,
            "fidelity_lsb": 2.0 + wobble,
            **harm,
        }

    def feedback(
        self, device: FakeDevice, installs: list[dict[str, Any]], health: list[dict[str, Any]]
    ) -> httpx.Response:
        body = self.batch(device, installs, health)
        return self.client.post("/releases/v1/feedback", token=device.token, json=body)

    def batch(self, device: FakeDevice, installs: list[dict[str, Any]], health: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "tags": device.tags.model_dump(),
            "running_digest": device.running,
            "installs": installs,
            "health": health,
        }

    def run(self, rollout_id: str, rounds: int = 12, **world: Any) -> Rollout:
        """Let time pass in rounds of half a soak until the rollout is over."""
        for _ in range(rounds):
            self.live(**world)
            self.clock.sleep(HOUR / 2 + 1)
            ticks.tick_all()
            found = self.look(rollout_id)
            if found.finished is not None or found.state == "paused":
                return found
        return self.look(rollout_id)


def enrolment(token: str, tags: dict[str, str], running: str = "", key: bytes | None = None) -> dict[str, Any]:
    return {
        "token": token,
        "public_key": base64.b64encode(key or os.urandom(32)).decode(),
        "tags": tags,
        "running_digest": running,
    }
