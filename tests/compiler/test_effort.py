"""Thorough effort: an exact search for the SRAM peak, limited in time, said wherever the plan is told about."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from compiler.cli import app
from compiler.driver import compile_program
from compiler.errors import CompileError
from compiler.memory import planner
from compiler.memory.check import faults
from compiler.memory.placement import Proof
from compiler.memory.plan import place_pinned
from compiler.memory.planner import HURRIED, Effort, Limits, Patience
from compiler.options import CompileOptions
from contracts.bundle import Bundle
from tests.compiler.test_planner import ABOVE_ITS_BOUND
from tests.support.models import vsr_qdq

ROOM = 1 << 20


@pytest.fixture
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fast effort that gives up at once."""
    monkeypatch.setattr(planner, "LIMITS", Limits(climb_pairs=0, fast_steps=0, fast_steps_a_buffer=0))


@pytest.mark.usefixtures("_hasty")
def test_thorough_effort_proves_what_fast_effort_leaves_open() -> None:
    fast = place_pinned(ABOVE_ITS_BOUND, 1, ROOM)
    assert fast.proof is Proof.NONE
    assert fast.gap > 0
    found = place_pinned(ABOVE_ITS_BOUND, 1, ROOM, Patience(Effort.THOROUGH, time.monotonic() + 60))
    assert found.proof is Proof.SEARCH
    assert (found.peak, found.bound, found.gap) == (9, 9, 0.0)
    assert faults(ABOVE_ITS_BOUND, found.offsets, 1, 9) == []


@pytest.mark.usefixtures("_hasty")
@pytest.mark.parametrize("patience", [HURRIED, Patience(Effort.THOROUGH, 0.0)])
def test_without_patience_left_nothing_is_searched(patience: Patience) -> None:
    assert patience.left == 0.0
    assert place_pinned(ABOVE_ITS_BOUND, 1, ROOM, patience) == place_pinned(ABOVE_ITS_BOUND, 1, ROOM)


def test_the_default_is_fast_and_stays_as_it_was() -> None:
    model = vsr_qdq(16, 16, 2, 3)
    plain, report = compile_program(model, "npu-4t", [(48, 64)])
    said, _ = compile_program(model, "npu-4t", [(48, 64)], CompileOptions(effort="fast"))
    assert plain == said
    assert report.profiles[0].effort == "fast"


@pytest.mark.parametrize("changes", [{"effort": "heroic"}, {"effort_seconds": 0.0}, {"effort_seconds": 1e9}])
def test_an_effort_that_is_none_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(CompileError, match="effort"):
        CompileOptions(**changes)  # type: ignore[arg-type]


def test_the_report_and_the_memory_map_tell_peak_bound_gap_and_proof(tmp_path: Path) -> None:
    model, out, run = tmp_path / "m.onnx", tmp_path / "b.elb", CliRunner().invoke
    model.write_bytes(vsr_qdq(16, 16, 2, 3))
    arguments = ["compile", str(model), "--out", str(out), "--profile", "48x64", "--effort", "thorough"]
    told = run(app, [*arguments, "--effort-seconds", "5"])
    assert told.exit_code == 0, told.output
    assert "memory, thorough effort: peak " in told.stdout
    entry = Bundle.open(out).json("npu-4t/memory_map.json")["programs"]["model"]["48x64"]
    assert entry["effort"] == "thorough"
    assert entry["peak"] >= entry["lower_bound"] > 0
    assert entry["gap"] == pytest.approx(entry["peak"] / entry["lower_bound"] - 1, abs=1e-6)
    assert entry["proof"]
    assert "memory, thorough effort: peak " in run(app, ["inspect", str(out)]).stdout
    (profile, *_) = json.loads(run(app, ["inspect", str(out), "--json"]).stdout)["programs"][0]["profiles"]
    assert (profile["effort"], profile["sram_gap"]) == ("thorough", entry["gap"])
    assert run(app, ["verify", str(out)]).exit_code == 0
