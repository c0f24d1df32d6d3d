"""`edgeloop agent` on the emulated NPU with bundles from the real compiler."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from contracts.bundle import Bundle
from contracts.clock import SystemClock, set_pace
from edge_agent.cli import _loader, app
from edge_agent.config import load_config
from edge_agent.errors import ConfigError
from edge_agent.runtime.npu.climate import ClimateModel
from edge_agent.session import sole_owner
from edge_agent.sources import decode
from tests.support.agent_twin import ToyBundle, write_video
from tests.support.platform_twin import TOKEN, PlatformTwin
from tests.support.real_bundle import SIZE, compile_real

runner = CliRunner()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two real bundles and a clip."""
    folder = tmp_path_factory.mktemp("made")
    compile_real(folder, "1.0", seed=0)
    compile_real(folder, "2.0", seed=1)
    write_video(folder / "clip.mp4", frames=30, size=(SIZE[1], SIZE[0]))
    return folder


def bundle(made: Path, version: str) -> ToyBundle:
    return compile_real(made, version, seed=int(version[0]) - 1)


@pytest.fixture
def run_arguments(made: Path, tmp_path: Path) -> list[str]:
    arguments = ["run", "--factory-bundle", str(made / "1.0.elb"), "--source", str(made / "clip.mp4")]
    return [*arguments, "--state-dir", str(tmp_path / "device"), "--device-class", "npu-4t", "--fps", "0"]


def test_a_clip_is_played_through_the_npu_into_an_mp4_of_twice_the_size(
    run_arguments: list[str], tmp_path: Path
) -> None:
    result = runner.invoke(app, [*run_arguments, "--output", str(tmp_path / "out.mp4"), "--json"])
    assert result.exit_code == 0, result.output
    status = json.loads(result.stdout)
    assert (status["frames"], status["upscaled"], status["observed"]) == (30, 30, 30)
    assert (status["plain_frames"], status["unverified_bytes_run"]) == (0, 0)
    frames = list(decode(str(tmp_path / "out.mp4")))
    assert len(frames) == 30
    assert frames[0].pixels.shape == (2 * SIZE[0], 2 * SIZE[1], 3)


def test_the_trace_of_the_last_frames_is_written(run_arguments: list[str], tmp_path: Path) -> None:
    result = runner.invoke(app, [*run_arguments, "--trace", str(tmp_path / "trace.json"), "--json"])
    assert result.exit_code == 0, result.output
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {"upscale", "observe"} <= {event["name"] for event in events}


def test_the_climate_of_the_settings_reaches_the_device(run_arguments: list[str], tmp_path: Path) -> None:
    config = tmp_path / "agent.json"
    whole = {
        "state_dir": str(tmp_path),
        "factory_bundle": "b.elb",
        "source": "c.mp4",
        "tags": {"device_class": "npu-4t"},
    }
    config.write_text(json.dumps({**whole, "fps": 20, "climate": {"charge": 0.1, "ambient_c": 20.0}}))
    options = _loader(load_config(config, {}), SystemClock()).options
    assert options.climate == ClimateModel(ambient_c=20.0, charge=0.1)
    assert options.frame_s == 0.05
    config.write_text(json.dumps({"climate": {"charge": 2.0}}))
    refused = runner.invoke(app, [*run_arguments, "--config", str(config)])
    assert refused.exit_code != 0
    assert "charge" in refused.output


def test_a_truncated_clip_ends_with_what_where_and_remedy(run_arguments: list[str], made: Path, tmp_path: Path) -> None:
    clip = tmp_path / "cut.mp4"
    clip.write_bytes((made / "clip.mp4").read_bytes()[:-500])
    result = runner.invoke(app, [*run_arguments, "--source", str(clip)])
    assert result.exit_code == 1
    assert str(clip) in result.stderr


def test_a_picture_of_another_size_is_fitted(run_arguments: list[str], tmp_path: Path) -> None:
    write_video(tmp_path / "other.mp4", frames=5, size=(128, 96))
    result = runner.invoke(app, [*run_arguments, "--source", str(tmp_path / "other.mp4"), "--json"])
    assert json.loads(result.stdout)["upscaled"] == 5


@pytest.mark.parametrize("backend", ["npu", "onnxruntime"])
def test_a_device_updates_on_the_real_runtime(
    run_arguments: list[str], made: Path, twin: PlatformTwin, backend: str, tmp_path: Path
) -> None:
    new = bundle(made, "2.0")
    twin.set_state(epoch=2, baseline=twin.release(new.data, new.digest, "2.0"))
    config = tmp_path / "agent.json"
    settings = {"trial": {"frames": 5, "fidelity_lsb": 255}, "sync_s": 0.1, "backend": backend}
    config.write_text(json.dumps(settings))
    options = ["--config", str(config), "--platform-url", twin.url, "--token", TOKEN, "--loop", "--json"]
    for _ in range(2):
        result = runner.invoke(app, [*run_arguments, *options, "--fps", "60", "--max-frames", "90"])
        assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["running_version"] == "2.0"
    assert ("confirmed", "none") in twin.installs


def test_faults_of_one_class_roll_the_new_bundle_back(
    run_arguments: list[str], made: Path, twin: PlatformTwin, tmp_path: Path
) -> None:
    new = bundle(made, "2.0")
    twin.set_state(epoch=2, baseline=twin.release(new.data, new.digest, "2.0"))
    config = tmp_path / "agent.json"
    config.write_text(json.dumps({"trial": {"frames": 50, "fidelity_lsb": 255}, "sync_s": 0.1}))
    faults = json.dumps({"driver_error_rate": 1.0, "match": Bundle.open(new.path).manifest.build_id})
    options = ["--config", str(config), "--platform-url", twin.url, "--token", TOKEN, "--loop", "--json"]
    result = runner.invoke(app, [*run_arguments, *options, "--faults", faults, "--fps", "60", "--max-frames", "120"])
    status = json.loads(result.stdout)
    assert status["running_version"] == "1.0"
    assert status["plain_frames"] == 0, "the CPU served the frames that the driver failed at"
    assert ("rolled_back", "driver_errors") in twin.installs


def test_status_tells_what_runs_and_why_it_rolled_back(run_arguments: list[str], tmp_path: Path) -> None:
    runner.invoke(app, [*run_arguments, "--json"])
    result = runner.invoke(app, ["status", "--state-dir", str(tmp_path / "device"), "--json"])
    report = json.loads(result.stdout)
    assert report["running"] == "built-in"
    assert report["last"]["frames"] == 30
    plain = runner.invoke(app, ["status", "--state-dir", str(tmp_path / "device")])
    assert "built-in" in plain.stdout


def test_enrol_joins_once(twin: PlatformTwin, tmp_path: Path) -> None:
    arguments = ["enrol", "--state-dir", str(tmp_path / "d"), "--platform-url", twin.url, "--token", TOKEN]
    for _ in range(2):
        result = runner.invoke(app, [*arguments, "--tag", "scenario=car", "--json"])
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["device_id"] == "device-0000"
    assert twin.devices["device-0000"].tags.scenario == "car"


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        (["--source", "nothing.mp4"], 1, "give a file that exists"),
        (["--factory-bundle", "nothing.elb"], 2, "built-in bundle"),
        (["--device-class", "npu-9x"], 2, "npu-9x"),
        (["--backend", "abacus"], 2, "backend"),
        (["--faults", "{"], 2, "--faults"),
        (["--faults", '{"gremlins": 1}'], 2, "gremlins"),
        (["--tag", "colour=red"], 2, "NAME=VALUE"),
        (["--platform-url", "http://127.0.0.1:9", "--token", "x" * 20], 1, "127.0.0.1:9"),
        (["--config", "nothing.json"], 2, "nothing.json"),
    ],
)
def test_wrong_use_is_answered_with_what_where_and_remedy(
    run_arguments: list[str], changes: list[str], status: int, words: str
) -> None:
    result = runner.invoke(app, [*run_arguments, *changes])
    assert result.exit_code == status, result.output
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().splitlines()) <= 2


def test_a_damaged_factory_bundle_is_not_played(run_arguments: list[str], made: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.elb"
    data = bytearray((made / "1.0.elb").read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(bytes(data))
    result = runner.invoke(app, [*run_arguments, "--factory-bundle", str(damaged)])
    assert result.exit_code == 2
    assert "SHA-384" in result.stderr


def test_two_agents_on_one_folder_are_one_too_many(run_arguments: list[str], tmp_path: Path) -> None:
    with sole_owner(tmp_path / "device"):
        result = runner.invoke(app, run_arguments)
    assert result.exit_code == 2
    assert "in use" in result.stderr


def test_settings_come_from_file_then_environment_then_flags(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    base = {"state_dir": "a", "factory_bundle": "b", "source": "file", "tags": {"device_class": "npu-4t"}}
    path.write_text(json.dumps({**base, "fps": 1}))
    environment = {"EDGELOOP_AGENT_FPS": "2", "EDGELOOP_AGENT_LOOP": "true"}
    assert load_config(path, {}).fps == 1
    assert load_config(path, environment).fps == 2
    assert load_config(path, environment).loop
    assert load_config(path, environment, fps=3.0, source=None).fps == 3
    with pytest.raises(ConfigError, match="fps"):
        load_config(path, {"EDGELOOP_AGENT_FPS": "fast"})


def test_sigterm_ends_an_agent_in_order(run_arguments: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out.mp4"
    command = [sys.executable, "-m", "edgeloop", "agent", *run_arguments, "--loop", "--fps", "50", "--output", str(out)]
    process = subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE)
    status = tmp_path / "device" / "status.json"
    wait_for(lambda: status.exists(), process)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert json.loads(output)["frames"] == len(list(decode(str(out))))


def test_a_fleet_runs_on_the_real_runtime_in_compressed_time(made: Path, twin: PlatformTwin, tmp_path: Path) -> None:
    schedule = {"entries": [{"from_day": 0, "paths": [str(made / "clip.mp4")]}]}
    groups = [
        {"name": name, "count": 3, "tags": {"device_class": name}, "schedule": schedule}
        for name in ("npu-4t", "npu-2t")
    ]
    fleet = {
        "state_dir": str(tmp_path / "fleet"),
        "factory_bundle": str(made / "1.0.elb"),
        "platform_url": twin.url,
        "enrolment_token": TOKEN,
        "groups": groups,
        "drift": {"minimum_frames": 10},
        "sync_s": 0.5,
    }
    (tmp_path / "fleet.json").write_text(json.dumps(fleet))
    clock = tmp_path / "clock.json"
    set_pace(clock, 20_000.0, start=20_000 * 86_400.0)
    command = [sys.executable, "-m", "edgeloop", "agent", "fleet", "--config", str(tmp_path / "fleet.json"), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "EDGELOOP_CLOCK_FILE": str(clock)})
    wait_for(lambda: len(twin.reports) >= 6, process)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    status = json.loads(output)
    assert status["joined"] == 6
    assert status["plain_frames"] == 0
    assert status["unverified_bytes_run"] == 0


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes], seconds: float = 90.0) -> None:
    """Wait until `condition()` holds while the process lives."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, "the process ended"
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.1)
