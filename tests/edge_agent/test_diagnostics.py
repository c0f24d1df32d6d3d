"""`edgeloop agent diagnose`: one encrypted file, from a running agent or a stopped one, with nothing in it that is
secret.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from typer.testing import CliRunner

from benchmarks.mending.seed_bundle import seed_bundle
from contracts.clock import SystemClock
from contracts.diagnostics import open_package
from edge_agent.agent import LoopSettings
from edge_agent.cli import app
from edge_agent.compose import DeviceSettings, Shared, build_agent
from edge_agent.diagnostics import of_agent, package, platform_key
from edge_agent.disk import Disk
from edge_agent.engines import RunnerLoader
from edge_agent.enrol import lone_identity
from edge_agent.errors import ConfigError
from edge_agent.observation import ObservationSettings
from edge_agent.session import Session, sole_owner
from edge_agent.sinks import NullSink
from edge_agent.store import BundleStore
from edge_agent.tee.client import TeeProcess
from tests.edge_agent.test_sealed_updates import DeadTee, offered, weighted
from tests.edge_agent.workshop import Workshop, play
from tests.support.agent_twin import TAGS, PictureSource
from tests.support.platform_twin import PlatformTwin
from tests.support.sealing_twin import CLASSES, Sealer

PRIVATE = X25519PrivateKey.generate()
RAW = PRIVATE.public_key().public_bytes_raw()
KEY = base64.b64encode(RAW).decode()


@pytest.fixture
def sealed(workshop: Workshop, twin: PlatformTwin) -> Iterator[Workshop]:
    twin.sealer = Sealer()
    workshop.tee = TeeProcess(workshop.state / "tee", CLASSES)
    yield workshop
    if isinstance(workshop.tee, TeeProcess):
        workshop.tee.close()


def test_a_running_agent_answers_with_trace_memory_map_slots_and_a_signature(tmp_path: Path) -> None:
    folder = tmp_path / "device"
    tee = TeeProcess(folder / "tee", CLASSES)
    disk, clock = Disk(durable=False), SystemClock()
    disk.make_directory(folder)
    shared = Shared(BundleStore(folder / "bundles", disk, tee), RunnerLoader("npu-4t", clock))
    factory = seed_bundle(tmp_path / "factory.elb")
    settings = DeviceSettings(folder, factory, ObservationSettings(TAGS), LoopSettings())
    agent = build_agent(settings, shared, clock, PictureSource(), NullSink(), disk, lone_identity(folder, disk), None)
    session = Session(agent, folder, fps=50.0, max_frames=0, sync_s=5.0)
    with sole_owner(folder):
        player = threading.Thread(target=session.run, daemon=True)
        player.start()
        out = tmp_path / "device.elg"
        arguments = ["diagnose", "--state-dir", str(folder), "--key", KEY, "--out", str(out), "--json"]
        answer = CliRunner().invoke(app, arguments)
        session.stop.set()
        player.join(30)
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.output)["running"] is True
    found = open_package(out.read_bytes(), PRIVATE)
    assert found.signed_by == tee.public().signing.hex()
    assert found.body["status"]["running_version"] == "1.0.0"
    assert found.body["memory_map"]["build_id"]
    assert 0 < len(found.body["trace"]["traceEvents"]) < 100_000
    assert {path.name for path in folder.glob("diagnose.*")} == set()
    tee.close()


def test_a_stopped_device_tells_what_its_disk_knows(sealed: Workshop, twin: PlatformTwin, tmp_path: Path) -> None:
    offered(sealed, twin, weighted(sealed, "2.0"), 2)
    agent = sealed.agent()
    agent.sync()
    play(agent, 12)
    agent.close()
    key, out = tmp_path / "key.pub", tmp_path / "device.elg"
    key.write_text(KEY + "\n")
    arguments = ["diagnose", "--state-dir", str(sealed.state), "--key", str(key), "--out", str(out)]
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 0, answer.output
    found = open_package(out.read_bytes(), PRIVATE)
    assert found.body["slots"]["a"]["version"] == "2.0"
    assert found.signed_by == ""


def test_no_secret_of_the_device_is_in_a_package(sealed: Workshop, twin: PlatformTwin) -> None:
    offered(sealed, twin, weighted(sealed, "2.0"), 2)
    agent = sealed.agent()
    agent.sync()
    play(agent, 12)
    text = json.dumps(open_package(package(of_agent(agent, "device-0000"), RAW, agent.tee), PRIVATE).body)
    identity = json.loads((sealed.state / "identity.json").read_bytes())
    chip = json.loads((sealed.state / "tee" / "tee.json").read_bytes())
    secrets = [identity["access_token"], identity["secret"], chip["sealing"], chip["signing"], chip["storage"]]
    assert all(len(secret) > 10 for secret in secrets)
    assert not [secret for secret in secrets if secret in text]
    assert identity["secret"] not in text
    assert "pixels" not in text


def test_a_dead_trusted_environment_costs_the_signature_only() -> None:
    found = open_package(package({"format": "f"}, RAW, DeadTee()), PRIVATE)
    assert found.signed_by == ""
    assert "dead" in found.body["unsigned"]


def test_wrong_keys_and_folders_get_an_error_with_the_remedy(tmp_path: Path) -> None:
    for wrong in ("xx", base64.b64encode(b"short").decode()):
        with pytest.raises(ConfigError, match="diagnostics key"):
            platform_key(wrong)
    arguments = ["diagnose", "--state-dir", str(tmp_path / "none"), "--key", KEY, "--out", str(tmp_path / "x")]
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 2
    assert not (tmp_path / "none").exists()
