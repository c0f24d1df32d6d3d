"""docs/how-to/add-a-backend.md is true: a package of its own, an entry point, a name in the settings, and it plays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.agent_twin import write_video
from tests.support.real_bundle import SIZE, compile_real

BOARD = '''
"""A board that fails at its first three frames, keeps to the contract and knows how to be light."""
import numpy as np
from edge_agent.runtime.backend import BackendFailed, BackendOptions, FrameUnfit, Observation, Span, Upscaled
from edge_agent.runtime.ort_backend import OrtBackend


class MyBoard:
    name = "myboard"

    def __init__(self, options: BackendOptions) -> None:
        self._driver, self._frames = OrtBackend(options), 0

    @property
    def sizes(self):
        return self._driver.sizes

    def load(self, bundle, device_class):
        self._driver.load(bundle, device_class)

    def reset(self):
        self._driver.reset()

    def lighten(self, reason):
        self._light = reason

    def upscale(self, frame):
        self._frames += 1
        if self._frames <= 3:
            raise BackendFailed("the board gave no answer within its deadline")
        image = self._driver.upscale(frame).image
        return Upscaled(image, 4.5, lambda: [Span("conv1", 0.0, 4.0)])

    def observe(self, frame):
        seen = self._driver.observe(frame)
        return Observation(seen.features, seen.embedding, 1.5)
'''


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder as pip leaves it: the module, and metadata with the entry point of the page."""
    folder = tmp_path / "site"
    module, metadata = folder / "myboard", folder / "myboard-1.0.dist-info"
    for place in (module, metadata):
        place.mkdir(parents=True)
    (module / "__init__.py").write_text("")
    (module / "backend.py").write_text(BOARD)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: myboard\nVersion: 1.0\n")
    page = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "add-a-backend.md"
    lines = [line.strip() for line in page.read_text().splitlines()]
    at = lines.index('[project.entry-points."edgeloop.backends"]')
    name, _, target = lines[at + 1].partition(" = ")
    entry = f"[edgeloop.backends]\n{name} = {json.loads(target)}\n"
    (metadata / "entry_points.txt").write_text(entry)
    return folder


def run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_a_backend_of_another_package_plays_heals_and_is_traced(packages: Path, tmp_path: Path) -> None:
    compile_real(tmp_path, "1.0", seed=0)
    write_video(tmp_path / "clip.mp4", frames=20, size=(SIZE[1], SIZE[0]))
    command = [sys.executable, "-m", "edgeloop", "agent", "run", "--state-dir", str(tmp_path / "device"), "--json"]
    command += ["--factory-bundle", str(tmp_path / "1.0.elb"), "--source", str(tmp_path / "clip.mp4")]
    command += ["--device-class", "npu-4t", "--fps", "0", "--trace", str(tmp_path / "trace.json")]
    root = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(packages), root])}
    board = ["--backend", "myboard", "--loop", "--max-frames", "110"]
    done = run([*command, *board], environment)
    assert done.returncode == 0, done.stderr
    status = json.loads(done.stdout)
    assert (status["frames"], status["upscaled"], status["plain_frames"]) == (110, 110, 0)
    assert status["engine_state"] == "normal", "three errors are not five"
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    upscaled = [event["args"]["backend"] for event in events if event["name"] == "upscale"]
    assert upscaled[:3] == ["onnxruntime"] * 3
    assert set(upscaled[3:]) == {"myboard"}
    assert "conv1" in {event["name"] for event in events}, "one frame in a hundred is kept with its parts"
    without = run([*command, "--backend", "otherboard"], environment)
    assert without.returncode == 2
    assert "installed: myboard, npu, onnxruntime" in without.stderr
