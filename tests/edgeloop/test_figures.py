"""One form for every figure."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from edgeloop import bench
from edgeloop.figures import Figure, at_least, at_most, below, exactly, frame, show

GOOD, BAD = at_least("psnr_gain", 0.5, "dB", 0.3), at_most("wall", 16.0, "min", 15.0)


def test_bounds_say_what_they_promise_and_whether_it_holds() -> None:
    assert Figure("psnr_gain", 0.5, "dB", ">= 0.3 dB", True) == GOOD
    assert Figure("wall", 16.0, "min", "<= 15 min", False) == BAD
    assert not below("size", 2048.0, "B", 2048.0).ok
    assert exactly("alarm", True, "", True).reach == "yes"


def test_not_a_number_never_holds() -> None:
    nan = float("nan")
    assert not at_least("x", nan, "", 0.0).ok
    assert not at_most("x", nan, "", 0.0).ok


def test_the_frame_has_the_fixed_members() -> None:
    document = json.loads(json.dumps(frame([GOOD])))
    assert document.keys() == {"machine", "figures"}
    assert document["figures"][0].keys() == {"id", "value", "unit", "reach", "ok"}
    assert document["machine"]["cpus"] >= 1


@pytest.mark.parametrize(("figures", "code"), [([GOOD], 0), ([GOOD, BAD], 1)])
@pytest.mark.parametrize("as_json", [True, False])
def test_the_exit_code_tells_whether_all_hold(
    figures: list[Figure], code: int, as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show(figures, as_json=as_json) == code
    said = capsys.readouterr().out
    assert json.loads(said)["figures"] if as_json else "psnr_gain" in said


def test_bench_runs_a_bench_and_leaves_with_its_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(tell: bench.Tell) -> list[Figure]:
        tell(0.5, "half way")
        return [BAD]

    monkeypatch.setattr(bench, "benches", lambda: {"slow": lambda: slow})
    done = CliRunner().invoke(bench.app, ["slow", "--json"])
    assert done.exit_code == 1
    assert json.loads(done.stdout)["figures"][0]["id"] == "wall"
    assert CliRunner().invoke(bench.app, []).output == "slow\n"
    assert CliRunner().invoke(bench.app, ["none"]).exit_code == 2
