"""The report carries every figure, stands alone and says so when a promise was broken."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from demo.report import write_report
from demo.story import DriftPoint, FleetPoint, Picture, QualityRow, StepTime, Story
from edgeloop.figures import at_least, at_most


def told() -> Story:
    story = Story(pace="A day passes in 20 s.")
    story.figures = [at_least("quality.hard.gain", 0.5, "dB", 0.3), at_most("demo.wall_minutes", 12.0, "min", 15.0)]
    story.steps = [StepTime("platform", 0.0, 31.0, 1.0), StepTime("retrain", 31.0, 240.0, 2.0)]
    story.drift = [DriftPoint("npu-4t/home", day, "severe", 5.0 * day, 1.0, True) for day in range(3)]
    story.fleet = [FleetPoint(0.0, {"v1": 10}), FleetPoint(9.0, {"v1": 2, "v2": 8})]
    story.quality = [QualityRow("carphone", "hard", 28.0, 29.0, 29.6)]
    story.pictures = [Picture("<script>alert(1)</script>", (("old", np.zeros((8, 8, 3), np.uint8)),))]
    return story


def test_the_json_has_the_form_of_every_figure(tmp_path: Path) -> None:
    write_report(tmp_path, told())
    document = json.loads((tmp_path / "report.json").read_text())
    assert set(document["figures"][0]) == {"id", "value", "unit", "reach", "ok"}
    assert document["machine"]["cpus"] >= 1
    assert [step["name"] for step in document["steps"]] == ["platform", "retrain"]


def test_the_page_stands_alone_and_escapes_what_it_is_told(tmp_path: Path) -> None:
    page = write_report(tmp_path, told()).read_text()
    assert "every promise held" in page
    assert "<script>" not in page
    assert 'src="http' not in page
    assert 'href="http' not in page.replace('href="http://www.w3.org', "")
    assert page.count("<svg") == 4


def test_a_broken_promise_is_shown_as_such(tmp_path: Path) -> None:
    story = told()
    story.figures.append(at_least("coverage.after", 0.5, "share", 0.95))
    assert "a promise was broken" in write_report(tmp_path, story).read_text()


def test_a_story_that_ended_early_still_makes_a_report(tmp_path: Path) -> None:
    assert write_report(tmp_path, Story(pace="x")).exists()
