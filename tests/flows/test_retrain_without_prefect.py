"""Prefect gone in the middle: the run goes on, what it did is kept, and the next call finishes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flows.run_folder import RunFolder
from flows.run_pulse import RunPulse, RunState, read_beat
from tests.support.loopback_server import prefect_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

FLOW = """
import os, signal, sys
from pathlib import Path
from flows import serve
from flows.run_folder import RunFolder
from flows.run_pulse import RunPulse

def run(key, state, platform, settings, report):
    with RunPulse(state / "runs" / key) as pulse:
        folder = RunFolder(state / "runs" / key)
        report("collect", 0.0)
        folder.step("collect", lambda: {"eps": 0.5})
        os.killpg(int(sys.argv[1]), signal.SIGKILL)  # Prefect's server goes away
        for share in (0.2, 0.6, 1.0):
            report("train", share)
        folder.step("train", lambda: {"steps": 7})
    return {"key": key}

serve.run_retrain = run
try:
    serve.retrain_flow(alarm_id="a")
except Exception as error:
    print("the flow told Prefect in vain:", type(error).__name__)
"""


def test_prefect_gone_in_the_middle(tmp_path: Path) -> None:
    server, url = prefect_server(tmp_path / "prefect")
    server.start()
    try:
        assert server._child is not None
        done = subprocess.run(
            [sys.executable, "-c", FLOW, str(server._child.pid)],
            env={
                **os.environ, "PREFECT_API_URL": url, "PREFECT_HOME": str(tmp_path / "client"),
                "PREFECT_CLIENT_MAX_RETRIES": "0", "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
                "EDGELOOP_STATE_DIR": str(tmp_path), "EDGELOOP_BASE_URL": "http://127.0.0.1:9",
                "EDGELOOP_SERVICE_TOKEN": "t", "NO_COLOR": "1",
            },
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
    finally:
        server.kill()
    folder = RunFolder(tmp_path / "runs" / "alarm-a")
    assert json.loads(folder.read("train.json")) == {"steps": 7}, done.stderr[-3000:]
    beat = read_beat(folder.path)
    assert beat is not None
    assert beat.state is RunState.FINISHED
    with RunPulse(folder.path):  # nobody holds it
        assert folder.step("train", lambda: {"steps": 0}) == {"steps": 7}
