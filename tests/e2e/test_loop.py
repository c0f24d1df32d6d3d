"""One short turn of the whole loop on real parts: the fleet notices, the platform learns, the fleet takes it.

Small and quick, so it judges that the loop closes by itself, to a finished rollout or to a gate that says no; how good
the new model is, `make demo` judges.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from demo.driver import DemoError
from demo.run import run_demo
from demo.settings import DemoSettings

SHORT = DemoSettings(
    light_devices=195,
    full_devices=3,
    day_s=14.0,
    frames_per_day=10,
    min_report_frames=5,
    trial_frames=3,
    variants=3,
    clip_frames=30,
    budget_minutes=1.8,
    second_act=False,
)
MUST_HOLD = (
    "upload.segment_bytes", "upload.report_bytes", "upload.pixel_fields", "drift.alarm.changed",
    "drift.alarm.unchanged", "coverage.after", "quality.int8_drop", "fleet.on_new_bundle",
    "fleet.unverified_bytes_run", "demo.people_actions",
)  # fmt: skip


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_loop_closes_by_itself_and_leaves_nothing_running(state_folder: Path) -> None:
    folder = state_folder / "demo"
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    judged_bad = False
    try:
        run_demo(folder, SHORT, Console(quiet=True), free_port())
    except DemoError as error:
        if "did not pass" not in str(error):
            raise
        judged_bad = True
    document = json.loads((folder / "report.json").read_text())
    figures = {figure["id"]: figure for figure in document["figures"]}
    if judged_bad:
        # Trained for a minute only, the candidate may be worse; then the gate has to keep it from every device.
        assert set(json.loads((folder / "fleet.json").read_text())["versions"].values()) == {"1"}
    else:
        broken = {name: figures.get(name) for name in MUST_HOLD if not figures.get(name, {}).get("ok")}
        assert broken == {}
    assert (folder / "report.html").stat().st_size > 10_000
    assert {process.pid for process in psutil.Process().children(recursive=True)} <= before
