"""`bench qat`: one batch for everybody, results that are kept, exact twins, and figures that say what was missed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import qat
from benchmarks.keeping.code_hash import code_hash
from benchmarks.peers.environment import PeerFailed
from benchmarks.quantising import rows
from benchmarks.quantising.cache import Stage, done
from benchmarks.quantising.judging import device_differences, distance, fake_outputs, runtime_outputs
from benchmarks.quantising.material import Material
from benchmarks.quantising.own import WAYS, Way, quantise
from benchmarks.quantising.rows import Seed
from benchmarks.quantising.static import METHODS
from benchmarks.quantising.twin import export_float
from benchmarks.teaching.anchor import load_anchor
from benchmarks.teaching.material import CLEAN
from benchmarks.teaching.plain import PlainNet
from edgeloop.figures import Figure
from flows.data.clips import shrink
from flows.data.pairs import Pair, PairSet


def pair(seed: int) -> Pair:
    """Three frames of coloured waves with some noise, and their halves."""
    y, x = np.mgrid[0:136, 0:144]
    waves = 127 + 60 * np.sin(x[..., None] / (2.0 + seed, 3.0, 5.0)) + 50 * np.cos(y[..., None] / (3.0 + seed))
    noise = np.random.default_rng(seed).normal(0, 6, (3, 136, 144, 3))
    high = np.clip(waves + noise, 0, 255).astype(np.uint8)
    return Pair(f"waves {seed}", CLEAN, shrink(high, 2), high)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.quantising.material.CALIBRATION_BATCHES", 2)


MATERIAL, JUDGED = Material(PairSet((pair(0), pair(1)))), (pair(2),)


@pytest.fixture
def start(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    torch.save(PlainNet().state_dict(), tmp_path / "net.pt")
    return tmp_path / "net.pt"


@pytest.fixture
def seed(start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Seed:
    monkeypatch.setattr(rows, "learned", lambda: MATERIAL)
    monkeypatch.setattr(rows, "judged", lambda: JUDGED)
    return Seed(0, tmp_path / "kept", start, steps=3)


def test_everybody_who_asks_gets_the_same_batch() -> None:
    low, high = MATERIAL.batch(5, 17)
    assert torch.equal(low, MATERIAL.batch(5, 17)[0])
    assert not torch.equal(low, MATERIAL.batch(5, 18)[0])
    assert not torch.equal(low, MATERIAL.batch(6, 17)[0])
    assert (low.shape, high.shape) == ((8, 3, 64, 64), (8, 3, 128, 128))
    assert torch.equal(MATERIAL.calibration(5)[1], MATERIAL.calibration(5)[1])


def test_the_float_export_is_the_net(start: Path) -> None:
    net = load_anchor(start).eval()
    frames = JUDGED[0].low[:1]
    wanted = fake_outputs(net, frames, exact=True)
    assert distance(wanted, runtime_outputs(export_float(net), frames), 1 / 255).steps < 1e-2


@pytest.mark.parametrize("way", ["ptq", "own", "ptq_free_ends"])
def test_a_twin_is_what_onnx_runtime_and_the_device_compute(way: str, start: Path) -> None:
    made = quantise(WAYS[way], start, 0, 8, 2e-4, MATERIAL)
    frames = JUDGED[0].low
    scale = rows._scale(made.model)
    integers = runtime_outputs(made.model, frames)
    assert distance(fake_outputs(made.network, frames, exact=True), integers, scale).share == 0.0
    trained = distance(fake_outputs(made.network, frames, exact=False), integers, scale)
    assert trained.steps <= 1.01
    if way != "ptq_free_ends":
        assert device_differences(made.model, frames) == (0, 4 * 136 * 144 * 3)


def test_pinned_ends_are_the_pixel_grid_and_free_ones_are_not(start: Path) -> None:
    pinned = quantise(Way(trained=False), start, 0, 0, 0.0, MATERIAL)
    free = quantise(Way(trained=False, pinned=False), start, 0, 0, 0.0, MATERIAL)
    assert rows._scale(pinned.model) == pytest.approx(1 / 255, rel=1e-7)
    assert rows._scale(free.model) != pytest.approx(1 / 255, rel=1e-4)


def test_a_stage_is_made_once_and_again_when_its_settings_change(tmp_path: Path) -> None:
    made: list[Path] = []

    def make(folder: Path) -> dict[str, int]:
        made.append(folder)
        return {"n": len(made)}

    stage = Stage("x", 0, {"steps": 1}, ("benchmarks/quantising/steps.py",))
    assert done(stage, make, tmp_path) == done(stage, make, tmp_path) == {"n": 1}
    assert done(replace(stage, settings={"steps": 2}), make, tmp_path) == {"n": 2}
    assert done(replace(stage, seed=1), make, tmp_path) == {"n": 3}
    assert len(set(made)) == 3


def test_a_stage_that_was_stopped_is_done_again(tmp_path: Path) -> None:
    def stopped(folder: Path) -> dict[str, int]:
        (folder / "half").write_text("")
        raise KeyboardInterrupt

    stage = Stage("x", 0, {}, ())
    with pytest.raises(KeyboardInterrupt):
        done(stage, stopped, tmp_path)
    assert done(stage, lambda _: {"n": 1}, tmp_path) == {"n": 1}


def test_code_counts_and_its_comments_do_not(tmp_path: Path) -> None:
    def hashed(text: str) -> str:
        (tmp_path / "a.py").write_text(text)
        return code_hash(("a.py",), tmp_path)

    plain = hashed('"""Doc."""\n\ndef f():\n    """Doc."""\n    return 1\n')
    assert hashed('"""Other."""\ndef f():  # why\n    """Other."""\n    return (1)\n') == plain
    assert hashed('"""Doc."""\n\ndef f():\n    """Doc."""\n    return 2\n') != plain


def _peer(name: str, folder: Path) -> dict[str, object]:
    """Stands in for the other environment: hands the float model back as what was quantised."""
    if name == "aimet":
        raise PeerFailed("pip left with 1")
    task = json.loads((folder / "task.json").read_text())
    net = load_anchor(Path(task["start"])).eval()
    (folder / "model.onnx").write_bytes(export_float(net))
    np.savez(folder / "fake.npz", *fake_outputs(net, np.load(task["frames"]), exact=True))
    return {"cpu_s": 1.0, "version": "9"}


@pytest.mark.slow
def test_every_stage_runs_is_kept_and_has_its_figure(seed: Seed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "run_peer", _peer)
    told: list[tuple[float, str]] = []
    found = qat.measure([seed], lambda share, text: told.append((share, text)))
    figures = {figure.id: figure for figure in qat.figures(found, 1)}
    assert {f"{name}.rgb" for name in ("fp32", "fp32_on", *WAYS, *METHODS, "brevitas")} <= set(figures)
    assert (figures["qat.seeds"].value, figures["qat.seeds"].ok) == (1, False)
    assert (figures["npu.differences"].value, figures["npu.differences"].ok) == (0, True)
    assert figures["int8.exact_twin"].value == 0.0
    assert figures["aimet.failed"].ok, "only Brevitas must be there"
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert all("min left" in text for _, text in told)

    def never(*_: object, **__: object) -> None:
        raise AssertionError("made twice")

    for name in ("level", "train", "quantise", "static"):
        monkeypatch.setattr(rows, name, never)
    again = qat.measure([seed], lambda *_: None)
    assert again.rows == found.rows


def _found(**rgb: float) -> qat.Found:
    agree = {"steps": 1.0, "share": 1e-4, "values": 100}
    clean = {"steps": 0.0, "share": 0.0, "values": 100}
    row = {"trained": agree, "exact": clean, "unfused": agree, "device_differences": 0, "device_values": 100}
    made = qat.Found()
    for name, value in rgb.items():
        made.rows[name] = [{"rgb": value, "luma": value + 1, "steps": 5, "cpu_s": 541.0, **row}] * 3
    return made


BASE = {"fp32": 42.0, "fp32_on": 42.1, "ptq": 41.97, "ptq_free_ends": 41.8, "own": 42.06, "brevitas": 42.05}


def _figures(found: qat.Found) -> dict[str, Figure]:
    return {figure.id: figure for figure in qat.figures(found, 3)}


def test_drops_are_against_the_float_net_of_the_same_training() -> None:
    figures = _figures(_found(**BASE))
    assert figures["ptq.drop"].value == pytest.approx(0.03)
    assert figures["qat.drop"].value == pytest.approx(0.04)
    assert figures["qat.drop"].ok


def test_missed_promises_are_told_as_missed() -> None:
    figures = _figures(_found(**{**BASE, "own": 42.04, "ptq": 41.9, "brevitas": 42.06}))
    assert [figures[name].ok for name in ("qat.drop", "ptq.drop", "same_steps.behind_first")] == [False] * 3
    found = _found(**BASE)
    found.rows["own"][0]["trained"] = {"steps": 2.0, "share": 1e-3, "values": 100}
    figures = _figures(found)
    assert (figures["int8.max_lsb"].ok, figures["int8.off_by_one"].ok) == (False, False)


def test_a_required_peer_that_did_not_run_is_not_ok() -> None:
    found = _found(**{name: value for name, value in BASE.items() if name != "brevitas"})
    found.failed["brevitas"] = "pip left with 1"
    assert not _figures(found)["brevitas.failed"].ok
