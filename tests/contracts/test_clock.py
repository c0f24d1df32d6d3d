"""Compressed time goes on smoothly, in every process, and never back."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from contracts.clock import FileClock, SystemClock, clock_from_environment, day_of, hour_of, set_pace


def test_time_runs_at_the_written_pace(tmp_path: Path) -> None:
    path = tmp_path / "clock.json"
    set_pace(path, 1_000.0, start=86_400.0 * 20_000)
    clock = FileClock(path)
    outer, before, inner = time.time(), clock.now(), time.time()
    time.sleep(0.05)
    passed, after = time.time() - inner, clock.now()
    assert 1_000.0 * passed - 0.01 <= after - before <= 1_000.0 * (time.time() - outer) + 0.01
    assert day_of(before) == 20_000


def test_a_change_of_pace_never_turns_time_back(tmp_path: Path) -> None:
    path = tmp_path / "clock.json"
    set_pace(path, 10_000.0, start=0.0)
    clock = FileClock(path)
    clock.LOOK_EVERY_S = 0.0
    before = clock.now()
    set_pace(path, 0.5)
    assert clock.now() >= before
    assert clock.factor == 0.5


def test_a_damaged_clock_file_leaves_the_last_pace(tmp_path: Path) -> None:
    path = tmp_path / "clock.json"
    set_pace(path, 100.0, start=0.0)
    clock = FileClock(path)
    clock.LOOK_EVERY_S = 0.0
    path.write_text("{")
    clock.now()
    assert clock.factor == 100.0


def test_time_cannot_stand_still(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="positive"):
        set_pace(tmp_path / "clock.json", 0.0)


def test_without_a_clock_file_time_is_real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EDGELOOP_CLOCK_FILE", raising=False)
    clock = clock_from_environment()
    assert isinstance(clock, SystemClock)
    assert abs(clock.now() - time.time()) < 1


def test_sleeping_counts_in_the_clocks_own_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_pace(tmp_path / "clock.json", 1_000.0, start=0.0)
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    FileClock(tmp_path / "clock.json").sleep(50.0)
    assert slept == [pytest.approx(0.05)]


def test_hours_are_the_finest_time_of_messages() -> None:
    assert hour_of(7_199.9) == 1
