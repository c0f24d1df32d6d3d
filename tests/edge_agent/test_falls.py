"""A process that went down without an orderly end is told once, with the bundle that ran."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from contracts.wire import HealthReport
from edge_agent.limits import LIMITS
from edge_agent.session import Session
from edge_agent.slot_store import read_slots
from edge_agent.slots import Slots, count_end, count_start, forget_falls
from tests.edge_agent.workshop import Workshop, play
from tests.support.agent_twin import write_video
from tests.support.platform_twin import TOKEN, PlatformTwin
from tests.support.real_bundle import SIZE, compile_real


def told(twin: PlatformTwin) -> dict[str, HealthReport]:
    """Reports of crashes that the platform holds, by id: it takes an id once."""
    reports = (report for _, batch in twin.batches for report in batch.health)
    return {report.report_id: report for report in reports if report.crashes}


def test_an_orderly_end_is_no_crash_and_any_other_is_one() -> None:
    slots = count_end(count_start(Slots()))
    assert count_start(slots).fallen == 0
    down = count_start(count_start(Slots()))
    assert [fall.number for fall in down.falls] == [1]
    assert forget_falls(down, frozenset({1})).falls == ()
    assert forget_falls(down, frozenset({1})).fallen == 1


def test_the_memory_of_crashes_is_bounded_and_their_number_is_kept() -> None:
    slots = Slots()
    for _ in range(200):
        slots = count_start(slots)
    assert len(slots.falls) == LIMITS.falls_kept
    assert slots.fallen == 199


def test_a_crash_is_told_once_with_the_bundle_that_ran(workshop: Workshop, twin: PlatformTwin) -> None:
    new = workshop.bundle("2.0")
    twin.set_state(epoch=2, baseline=workshop.released(new))
    first = workshop.agent()
    first.sync()
    play(first, 20)
    first.settle()  # the bundle runs and is confirmed; then the process is gone
    again = workshop.agent()
    again.sync()
    play(again, 3)
    again.sync()
    again.close()
    again.flush()
    (report,) = told(twin).values()
    assert (report.digest, report.frames, report.upscaled, report.crashes) == (new.digest, 1, 0, 1)
    last = workshop.agent()
    last.sync()
    last.close()
    last.flush()
    assert len(told(twin)) == 1
    assert last.status()["crashes"] == 1


def test_a_crash_between_message_and_record_is_not_counted_twice(workshop: Workshop, twin: PlatformTwin) -> None:
    workshop.agent()
    second = workshop.agent()
    (fall,) = second.slots.falls
    assert second._parts.journal.tell_fall(fall, workshop.factory.digest)  # stored, and then the power goes
    third = workshop.agent()
    assert [one.number for one in third.slots.falls] == [1, 2]
    third.sync()
    third.sync()
    sent = [r.report_id for _, batch in twin.batches for r in batch.health if r.crashes]
    assert len(sent) == 3, "the first one twice"
    assert len(set(sent)) == 2


def test_an_error_that_ends_the_call_is_a_crash(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = workshop.agent()
    monkeypatch.setattr(agent, "step", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Session(agent, workshop.state, fps=0, max_frames=5, sync_s=600).run()
    assert workshop.agent().slots.fallen == 1


@pytest.mark.parametrize("field", ["crashes", "driver_errors", "deadline_misses", "cpu_frames", "sequence"])
def test_a_device_that_lies_is_bounded(field: str) -> None:
    honest = {"report_id": "r", "digest": "a" * 96, "sequence": 1, "frames": 1, "crashes": 1}
    assert HealthReport.model_validate(honest).crashes == 1
    for lie in (-1, 2**64, 10**40):
        with pytest.raises(ValidationError, match=field):
            HealthReport.model_validate({**honest, field: lie})


@pytest.mark.slow
def test_an_agent_that_is_killed_tells_it_at_its_next_start(twin: PlatformTwin, tmp_path: Path) -> None:
    compile_real(tmp_path, "1.0", seed=0)
    write_video(tmp_path / "clip.mp4", frames=30, size=(SIZE[1], SIZE[0]))
    config = tmp_path / "agent.json"
    config.write_text(json.dumps({"sync_s": 0.2, "trial": {"fidelity_lsb": 255}}))
    command = [sys.executable, "-m", "edgeloop", "agent", "run", "--config", str(config), "--json"]
    command += ["--factory-bundle", str(tmp_path / "1.0.elb"), "--source", str(tmp_path / "clip.mp4")]
    command += ["--state-dir", str(tmp_path / "device"), "--device-class", "npu-4t", "--fps", "50"]
    command += ["--platform-url", twin.url, "--token", TOKEN]
    for _ in range(2):
        process = subprocess.Popen([*command, "--loop"], stdout=subprocess.DEVNULL)
        status = tmp_path / "device" / "status.json"
        deadline = time.monotonic() + 90
        while not status.exists() and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(30)
        status.unlink()
    subprocess.run([*command, "--once"], stdout=subprocess.DEVNULL, check=True, timeout=90)
    reports = told(twin)
    assert sum(report.crashes for report in reports.values()) == len(reports) == 2
    slots = read_slots(tmp_path / "device" / "slots.json")
    assert (slots.fallen, slots.falls, slots.started) == (2, (), False)
