"""A run that goes on is what it was begun as, whoever finishes it."""

from __future__ import annotations

import dataclasses
import json
import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from edgeloop.__main__ import app
from flows import retrain_cli, serve
from flows.errors import FlowError
from flows.platform import Platform
from flows.run_pulse import RunPulse
from flows.steps.begun import PINNED, begun_with, settings_of
from flows.steps.context import RetrainSettings, open_context
from flows.steps.pin import pinned

ODD = RetrainSettings(
    budget_minutes=7.5, profiles=((72, 88),), targets=("npu-2t",), asks="temporal=0.2", entropy="auto", prune=0.8,
    prune_by="parameters", candidates=3, auto_release=False,
)  # fmt: skip
NEVER_PINNED = {"latency_limit", "soak_s", "min_devices", "spread"}


@pytest.fixture
def platform() -> Platform:
    return Platform("http://127.0.0.1:9", "t")


@pytest.fixture
def begun(tmp_path: Path, platform: Platform) -> Path:
    """A run that was begun with odd settings and was killed."""
    return begin(tmp_path, platform, ODD)


def begin(state: Path, platform: Platform, settings: RetrainSettings) -> Path:
    run = open_context("hand-1", state, platform, settings)
    with suppress(RuntimeError), RunPulse(run.folder.path):
        pinned(run)
        raise RuntimeError("killed")
    return run.folder.path


def test_a_run_that_has_not_begun_has_no_settings_and_no_folder(tmp_path: Path) -> None:
    assert begun_with(tmp_path / "runs" / "new") == {}
    assert not (tmp_path / "runs").exists()


def test_every_setting_comes_back(begun: Path) -> None:
    assert settings_of(begun) == ODD


def test_counted_steps_come_back(tmp_path: Path, platform: Platform) -> None:
    counted = RetrainSettings(steps=(30, 40, 50))
    folder = begin(tmp_path, platform, counted)
    assert settings_of(folder) == counted
    assert settings_of(folder, budget_minutes=3.0).steps is None  # minutes were asked for now


def test_no_setting_is_forgotten(begun: Path) -> None:
    """A field that is added later is pinned, or is named here as one that belongs to the server."""
    fields = {field.name for field in dataclasses.fields(RetrainSettings)}
    assert set(begun_with(begun)) == fields - NEVER_PINNED


def test_the_beginning_wins_over_the_environment_and_a_word_now_over_both(
    begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGELOOP_RETRAIN_CANDIDATES", "2")
    monkeypatch.setenv("EDGELOOP_RETRAIN_MIN_DEVICES", "9")
    assert settings_of(begun).candidates == 3
    assert settings_of(begun).min_devices == 9
    assert settings_of(begun, auto_release=True, budget_minutes=None).auto_release


def test_a_run_begun_before_a_setting_existed_goes_on(begun: Path) -> None:
    kept = json.loads((begun / PINNED).read_text())
    del kept["candidates"]
    (begun / PINNED).write_text(json.dumps(kept))
    assert settings_of(begun).candidates == 1


def test_a_damaged_beginning_is_named(begun: Path) -> None:
    kept = json.loads((begun / PINNED).read_text())
    (begun / PINNED).write_text(json.dumps(kept | {"profiles": ["72x88"]}))
    with pytest.raises(FlowError, match=r"run\.json is damaged"):
        settings_of(begun)


class Seen:
    """Stands for the run itself."""

    def __init__(self) -> None:
        self.key, self.settings = "", RetrainSettings()

    def __call__(self, key: str, _state: Path, _platform: Platform, settings: RetrainSettings, *_: object) -> Any:
        self.key, self.settings = key, settings
        return {"key": key, "steps": {}}


@pytest.fixture
def served(tmp_path: Path, platform: Platform, monkeypatch: pytest.MonkeyPatch) -> Seen:
    seen = Seen()
    monkeypatch.setenv("EDGELOOP_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(serve, "run_retrain", seen)
    monkeypatch.setattr(serve, "get_run_logger", lambda: logging.getLogger("served"))
    monkeypatch.setattr(serve.Platform, "from_environment", lambda: platform)
    for name in ("start_trace", "start_spans", "stop_spans"):
        monkeypatch.setattr(serve, name, lambda *_: None)
    return seen


@pytest.mark.usefixtures("begun")
def test_the_nightly_flow_does_not_release_what_was_begun_without(served: Seen) -> None:
    serve.retrain_flow.fn(candidates=1)  # for a new run, which this is not
    assert served.key == "hand-1"
    assert served.settings == ODD


def test_the_served_flow_takes_the_options_of_the_command(served: Seen) -> None:
    serve.retrain_flow.fn(alarm_id="a", candidates=2, prune=0.7, entropy="on", asks="temporal=0.1", auto_release=False)
    assert served.key == "alarm-a"
    assert served.settings == RetrainSettings(
        candidates=2, prune=0.7, entropy="on", asks="temporal=0.1", auto_release=False
    )


@pytest.mark.usefixtures("begun")
@pytest.mark.parametrize("asked", [["--resume"], ["--key", "hand-1"]])
def test_the_command_goes_on_as_the_run_was_begun(
    asked: list[str], tmp_path: Path, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Seen()
    monkeypatch.setattr(retrain_cli, "run_retrain", seen)
    monkeypatch.setattr(retrain_cli, "_platform", lambda _state: platform)
    done = CliRunner().invoke(app, ["retrain", "--state", str(tmp_path), "--json", *asked])
    assert done.exit_code == 0, done.output
    assert (seen.key, seen.settings) == ("hand-1", ODD)
    CliRunner().invoke(app, ["retrain", "--state", str(tmp_path), "--json", "--release", *asked])
    assert seen.settings.auto_release
