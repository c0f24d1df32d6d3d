"""A run says where it trains, and refuses a device that is not there before it does anything."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from flows import retrain_cli
from flows.errors import TrainingError
from flows.lineage import described
from flows.platform import Platform
from flows.retrain import run_retrain
from flows.steps.context import RetrainSettings, open_context
from flows.steps.pin import pinned
from flows.tracking import Tracker

NOBODY = Platform("http://127.0.0.1:9", "t")
ABSENT = "cuda:99"


def _command() -> typer.Typer:
    app = typer.Typer()
    app.command()(retrain_cli.retrain)
    return app


def test_a_gpu_that_is_not_there_is_told_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGELOOP_DEVICE", ABSENT)
    with pytest.raises(TrainingError, match=f"EDGELOOP_DEVICE={ABSENT}"):
        run_retrain("r", tmp_path, NOBODY, RetrainSettings(), None, Tracker("r", None))
    assert not (tmp_path / "runs").exists()
    told = CliRunner().invoke(_command(), ["--state", str(tmp_path)])
    assert told.exit_code == 1
    assert f"EDGELOOP_DEVICE={ABSENT}" in told.output.replace("\n", "")
    assert not (tmp_path / "runs").exists()


def test_the_command_says_where_it_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGELOOP_DEVICE", "cpu")
    monkeypatch.setattr(retrain_cli, "_platform", lambda _state: NOBODY)
    done = {"key": "r", "steps": {"train": {"seconds": 3.0}}}
    monkeypatch.setattr(retrain_cli, "run_retrain", lambda *_: done)
    told = CliRunner().invoke(_command(), ["--state", str(tmp_path), "--key", "r"])
    assert "done r (training on cpu): train 3 s" in told.output.replace("\n", "")


def test_the_tracked_parameters_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGELOOP_DEVICE", "cpu")
    run = pinned(open_context("r", tmp_path, NOBODY, RetrainSettings()))
    assert described(run)["device"] == "cpu"
