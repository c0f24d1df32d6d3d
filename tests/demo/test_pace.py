"""Simulated time slows down when the fleet cannot follow, and never runs faster than wanted."""

from __future__ import annotations

from pathlib import Path

from contracts.clock import set_pace
from demo.pace import SLOWEST, Pace


def pace_at(tmp_path: Path, factor: float) -> Pace:
    set_pace(tmp_path / "clock.json", 1.0, start=0.0)
    pace = Pace(tmp_path / "clock.json")
    pace.want(factor)
    return pace


def test_skipped_frames_slow_time_down(tmp_path: Path) -> None:
    pace = pace_at(tmp_path, 4_000.0)
    pace.adapt({"frames": 300, "frames_skipped": 200})
    assert pace.factor < 4_000.0


def test_time_never_gets_slower_than_the_slowest(tmp_path: Path) -> None:
    pace = pace_at(tmp_path, 4_000.0)
    for turn in range(1, 40):
        pace.adapt({"frames": turn, "frames_skipped": 1_000 * turn})
    assert pace.factor == SLOWEST


def test_a_fleet_that_follows_gets_the_wanted_pace_back(tmp_path: Path) -> None:
    pace = pace_at(tmp_path, 4_000.0)
    pace.adapt({"frames": 0, "frames_skipped": 1_000})
    for turn in range(1, 20):
        pace.adapt({"frames": 1_000 * turn, "frames_skipped": 1_000})
    assert pace.factor == 4_000.0


def test_too_few_frames_decide_nothing(tmp_path: Path) -> None:
    pace = pace_at(tmp_path, 4_000.0)
    pace.adapt({"frames": 1, "frames_skipped": 50})
    assert pace.factor == 4_000.0
