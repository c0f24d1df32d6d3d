"""The little kernel set: same integers, less of the chip, told about wherever the big set is told about."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from compiler import golden
from compiler.cli import app
from compiler.driver import compile_bundle, read_model
from compiler.errors import CompileError
from compiler.html import render_page
from compiler.inspection import facts
from compiler.limits import LIMITS
from compiler.little import build_little
from compiler.measures.views import view_file
from compiler.options import CompileOptions
from compiler.report import CompileReport
from compiler.verifier import verify_program
from contracts.bundle import Bundle
from contracts.npu import UnknownTarget, load_spec, target_names
from edge_agent.runtime.npu import NpuDevice
from tests.support.models import quality_qdq, vsr_qdq

MODEL, SIZES = vsr_qdq(32, 32, 3, 3, seed=1), [(90, 128), (96, 72)]


def made(path: Path, little: str = "same", targets: tuple[str, ...] = ("npu-4t", "npu-2t")) -> CompileReport:
    options = CompileOptions(little=little)
    return compile_bundle(MODEL, quality_qdq(), None, targets, SIZES, {}, path, "1", 1, options=options)


@pytest.mark.parametrize("target", target_names())
def test_a_little_core_is_the_same_chip_with_less_switched_on(target: str) -> None:
    chip = load_spec(target)
    assert chip.little == f"{target}/little"
    little = load_spec(chip.little)
    assert (little.name, little.little) == (f"{target}/little", None)
    assert (little.dvfs, little.ddr_bytes, little.driver_minimum) == (chip.dvfs, chip.ddr_bytes, chip.driver_minimum)
    assert little.sram_bytes < chip.sram_bytes
    assert little.peak_macs_per_ns < chip.peak_macs_per_ns
    assert little.thermal.peak_w / little.peak_macs_per_ns < chip.thermal.peak_w / chip.peak_macs_per_ns
    for one, other in zip(little.array_models, chip.array_models, strict=True):
        assert one.macs_per_cycle < other.macs_per_cycle


def test_a_little_core_of_no_chip_is_unknown() -> None:
    with pytest.raises(UnknownTarget, match="npu-9t/little"):
        load_spec("npu-9t/little")


def test_both_sets_give_the_golden_pixels(tmp_path: Path) -> None:
    made(tmp_path / "b.elb")
    bundle = Bundle.open(tmp_path / "b.elb")
    for profile in read_model("model", MODEL, SIZES).profiles:
        graph = profile.imported
        frame = np.random.default_rng(2).integers(0, 256, graph.values[graph.input].shape, dtype=np.uint8)
        wanted = golden.run(graph, frame)
        for target in bundle.targets:
            device = NpuDevice(target, jitter=0.0)
            for name in ("model", "model-little"):
                outputs = device.infer(device.load(bundle.program(target, name)), frame).outputs
                for output, image in wanted.items():
                    np.testing.assert_array_equal(outputs[output], image)


def test_the_little_set_keeps_to_the_little_core(tmp_path: Path) -> None:
    made(tmp_path / "b.elb")
    bundle = Bundle.open(tmp_path / "b.elb")
    for target in bundle.targets:
        program, spec = bundle.program(target, "model-little"), load_spec(f"{target}/little")
        assert program.target == spec.name
        assert max(profile.sram_peak for profile in program.profiles) <= spec.sram_bytes
        assert verify_program(program, spec) == []
        assert verify_program(program, load_spec(target)), "it is not a program of the big core"


def test_every_piece_tells_of_it(tmp_path: Path) -> None:
    report = made(tmp_path / "b.elb")
    bundle = Bundle.open(tmp_path / "b.elb")
    for target in bundle.targets:
        big, little = report.program(target), report.program(target, "model-little")
        assert (big.core, little.core) == ("big", "little")
        rows = list(csv.DictReader(io.StringIO(bytes(bundle.piece(f"{target}/profile_baseline.csv")).decode())))
        totals = {
            (row["program"], row["profile"]): float(row["microseconds"]) / 1000
            for row in rows
            if row["kernel"] == "total" and row["array_model"] == "ideal"
        }
        for profile in ("90x128", "96x72"):
            assert totals["model-little", profile] == pytest.approx(little.latency_ms[profile]["ideal"], abs=1e-3)
            assert totals["model-little", profile] > totals["model", profile]
        for piece in ("memory_map", "kernel_metadata"):
            assert {"model", "model-little", "quality"} == set(bundle.json(f"{target}/{piece}.json")["programs"])
    assert "model-little" in bundle.json("preprocess.json")["programs"]
    assert bundle.meta["little"] == {"net": "same", "targets": ["npu-4t", "npu-2t"]}
    assert report.little_bytes == sum(len(bundle.piece(f"{target}/model-little.npu")) for target in bundle.targets)


def test_none_leaves_it_out(tmp_path: Path) -> None:
    whole, less = made(tmp_path / "a.elb"), made(tmp_path / "b.elb", "none")
    names = Bundle.open(tmp_path / "b.elb").names
    assert not [name for name in names if "little" in name]
    assert less.little_bytes == 0
    assert 0 < whole.little_bytes <= whole.size - less.size
    assert whole.build_id != less.build_id


def test_a_bundle_that_only_the_little_set_makes_too_large_goes_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_it, without = made(tmp_path / "a.elb", "auto"), made(tmp_path / "b.elb", "none")
    assert with_it.little_bytes > 0
    assert with_it.notes == ()
    middle = (with_it.size + without.size) // 2
    monkeypatch.setattr("compiler.little.LIMITS", replace(LIMITS, bundle_bytes=middle))
    report = made(tmp_path / "c.elb", "auto")
    assert (report.little_bytes, report.size < middle) == (0, True)
    assert "no little kernels: with them the bundle would have" in report.notes[0]
    assert not [name for name in Bundle.open(tmp_path / "c.elb").names if "little" in name]
    assert "model-little" not in Bundle.open(tmp_path / "c.elb").json("npu-4t/memory_map.json")["programs"]
    assert made(tmp_path / "d.elb", "same").little_bytes == with_it.little_bytes
    monkeypatch.setattr("compiler.little.LIMITS", replace(LIMITS, bundle_bytes=1000))
    assert made(tmp_path / "e.elb", "auto").little_bytes == with_it.little_bytes, "too large without it as well"


def test_an_unknown_width_is_refused() -> None:
    with pytest.raises(CompileError, match=r"'0\.5' is no width of this model"):
        made(Path("unused.elb"), "0.5")


def test_a_chip_without_a_little_core_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compiler.little.load_spec", lambda name: replace(load_spec(name), little=None))
    profiles = read_model("model", MODEL, SIZES).profiles
    found = build_little(profiles, "npu-4t", bytes(16), CompileOptions())
    assert found.program is None
    assert "npu-4t: no little kernels, this chip has no little core" in found.reason


def test_inspect_shows_the_core(tmp_path: Path) -> None:
    made(tmp_path / "b.elb", targets=("npu-4t",))
    view = view_file(tmp_path / "b.elb")
    cores = {entry["program"]: (entry["target"], entry["core"]) for entry in facts(view)["programs"]}  # type: ignore[attr-defined]
    assert cores["model-little"] == ("npu-4t", "little")
    assert cores["model"] == ("npu-4t", "big")
    assert "npu-4t/model-little 90x128 (little core)" in render_page(view)


def test_the_commands_print_build_and_verify_it(tmp_path: Path) -> None:
    run = CliRunner().invoke
    model, out = tmp_path / "m.onnx", tmp_path / "b.elb"
    model.write_bytes(MODEL)
    told = run(app, ["compile", str(model), "--out", str(out), "--profile", "96x128"])
    assert told.exit_code == 0, told.output
    assert "npu-4t/model-little 96x128 on the little core" in told.stdout
    assert "for the little core" in told.stdout
    assert "npu-4t/model-little 96x128 on the little core" in run(app, ["inspect", str(out)]).stdout
    verified = json.loads(run(app, ["verify", str(out), "--json"]).stdout)
    assert verified["ok"]
    assert "npu-4t/model-little.npu" in verified["programs"]
    told = run(app, ["compile", str(model), "--out", str(out), "--profile", "96x128", "--little", "none"])
    assert "little" not in told.stdout
    refused = run(app, ["compile", str(model), "--out", str(out), "--profile", "96x128", "--little", "0.5"])
    assert refused.exit_code == 2
    assert "write auto, same, none or the name of a --width" in refused.stderr
