"""A calibration set in use: read only when it is what its report says, and ranges hold what it shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from flows.data.calibration.build import CalibrationSet, write_set
from flows.data.calibration.coverage import Rule
from flows.data.degrade import NORMAL
from flows.data.pairs import Pair, PairSet
from flows.platform import Platform
from flows.quant.calibration_set import MAX_REPORT_BYTES, CalibrationSetError, read_set
from flows.quant.qat import qat
from flows.steps.context import RetrainSettings, open_context
from flows.tasks.vsr.architecture import Architecture, Stage
from flows.tasks.vsr.net import VsrNet
from flows.tasks.vsr.train import TrainSettings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two chains of three runs: dark ones and bright ones."""
    random = np.random.default_rng(0)
    runs = {
        name: [random.integers(low, low + 40, (5, 48, 64, 3), dtype=np.uint8) for _ in range(3)]
        for name, low in (("dark", 0), ("bright", 215))
    }
    made = CalibrationSet(runs, (Rule("frames", 30, 30, "frames", "received frames in the set"),), {"seed": 0})
    write_set(made, tmp_path / "set")
    return tmp_path / "set"


def test_runs_of_every_chain_become_batches_bit_for_bit(folder: Path) -> None:
    found = read_set(folder, runs_a_file=2)
    assert [batch.shape for batch in found.batches()] == [torch.Size((5, 3, 48, 64))] * 4
    assert found.facts() == {"sha256": found.digest, "frames_in_set": 30, "frames_used": 20}
    bright, dark = found.batches()[0], found.batches()[2]
    assert float(bright.min()) >= 215 / 255 - 1e-6
    assert float(dark.max()) <= 40 / 255 + 1e-6


def test_ranges_hold_what_only_the_set_shows(folder: Path) -> None:
    torch.manual_seed(0)
    net = VsrNet(Architecture(8, (Stage(1, 8),)))
    grey = np.full((4, 64, 64, 3), 128, np.uint8)
    pairs = PairSet((Pair("grey", NORMAL, grey[:, ::2, ::2], grey),))
    settings = TrainSettings(batch=2, patch=16)
    plain = qat(net, pairs, None, None, settings=settings)
    wide = qat(net, pairs, None, None, settings=settings, calibration=read_set(folder).batches())
    assert wide.grids["head_grid"].scale > 1.2 * plain.grids["head_grid"].scale


def _report(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / "report.json"
        report = json.loads(path.read_text())
        change(report)
        path.write_text(json.dumps(report))

    return apply


def _append(folder: Path) -> None:
    with (folder / "dark.mp4").open("ab") as file:
        file.write(b"x")


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "no report": (lambda folder: (folder / "report.json").unlink(), "has no report.json; make a set with"),
    "not JSON": (lambda folder: (folder / "report.json").write_text("{"), "is not JSON"),
    "a list": (lambda folder: (folder / "report.json").write_text("[]"), "is not a report"),
    "too large": (lambda folder: (folder / "report.json").write_bytes(b" " * (MAX_REPORT_BYTES + 1)), "over 1 MiB"),
    "rules missed": (
        _report(lambda report: report.update(ok=False, rules=[{"name": "frames", "ok": False}])),
        r"misses its rules \(frames\)",
    ),
    "no rules": (_report(lambda report: report.update(ok=False, rules=None)), "has no rules"),
    "no files": (_report(lambda report: report.update(sha256={})), "names no file"),
    "a file is gone": (lambda folder: (folder / "dark.mp4").unlink(), "is not there"),
    "a file was changed": (_append, "was changed since the report"),
    "a path that leaves the folder": (
        _report(lambda report: report.update(sha256={"../report.json": "0"})), "is not there",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_set_that_is_not_what_its_report_says_is_refused(name: str, folder: Path) -> None:
    break_it, message = BAD[name]
    break_it(folder)
    with pytest.raises(CalibrationSetError, match=message):
        read_set(folder)


def test_a_run_refuses_a_bad_set_before_it_begins(folder: Path, tmp_path: Path) -> None:
    _append(folder)
    with pytest.raises(CalibrationSetError, match="was changed"):
        open_context("key", tmp_path, Platform("http://127.0.0.1:1", "t"), RetrainSettings(calibration=str(folder)))
    assert not (tmp_path / "runs").exists()


def test_the_setting_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert RetrainSettings.from_environment().calibration is None
    monkeypatch.setenv("EDGELOOP_RETRAIN_CALIBRATION", "var/calibration")
    assert RetrainSettings.from_environment().calibration == "var/calibration"
