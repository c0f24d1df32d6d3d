"""The driver: one deterministic, verified bundle or nothing."""

from __future__ import annotations

import csv
import io
import json
import time
from pathlib import Path

import pytest

from compiler.driver import compile_bundle, compile_program
from compiler.errors import CompileError
from compiler.options import CompileOptions
from compiler.pieces import BASELINE_COLUMNS
from compiler.report import CompileReport
from compiler.verifier import verify_program
from contracts.bundle import Bundle, BundleError
from contracts.npu import Program, load_spec
from tests.compiler.host_nets import HOST
from tests.support.models import QdqBuilder, quality_qdq, single_conv_qdq, vsr_qdq

TARGETS = ("npu-4t", "npu-2t")
PROFILES = ((64, 96), (32, 48))


def build(folder: Path, name: str = "release.elb", **changes: object) -> CompileReport:
    arguments: dict[str, object] = {
        "model": vsr_qdq(),
        "quality": quality_qdq(),
        "observer": b"npz bytes",
        "targets": TARGETS,
        "profiles": PROFILES,
        "meta": {"family": "demo"},
        "out": folder / name,
        "release_version": "1.2.0",
        "security_epoch": 3,
    }
    return compile_bundle(**{**arguments, **changes})  # type: ignore[arg-type]


def test_the_bundle_has_every_piece(tmp_path: Path) -> None:
    report = build(tmp_path)
    bundle = Bundle.open(tmp_path / "release.elb")
    assert set(bundle.names) == {
        "model.onnx",
        "quality.onnx",
        "observer.npz",
        "preprocess.json",
        "meta.json",
        *(
            f"{target}/{piece}"
            for target in TARGETS
            for piece in (
                "model.npu",
                "model-little.npu",
                "quality.npu",
                "memory_map.json",
                "kernel_metadata.json",
                "profile_baseline.csv",
            )
        ),
    }
    assert (report.size, report.digest) == (bundle.size, bundle.digest)
    assert report.build_id == bundle.manifest.build_id == bundle.meta["build_id"]
    assert bundle.meta["family"] == "demo"
    assert (bundle.manifest.release_version, bundle.manifest.security_epoch) == ("1.2.0", 3)


def test_every_program_verifies_and_carries_the_build(tmp_path: Path) -> None:
    report = build(tmp_path)
    bundle = Bundle.open(tmp_path / "release.elb")
    for target in TARGETS:
        for name in ("model", "quality"):
            program = bundle.program(target, name)
            assert verify_program(program, load_spec(target)) == []
            assert program.build_id.hex() == report.build_id
            assert [profile.name for profile in program.profiles] == ["64x96", "32x48"]


def test_profiles_share_constants_and_scales(tmp_path: Path) -> None:
    build(tmp_path)
    one, _ = compile_program(vsr_qdq(), "npu-4t", PROFILES[:1])
    both = Bundle.open(tmp_path / "release.elb").program("npu-4t", "model")
    assert bytes(both.constants) == bytes(Program.open(one).constants)
    assert bytes(both.quant) == bytes(Program.open(one).quant)


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = build(tmp_path, "a.elb"), build(tmp_path, "b.elb")
    assert (tmp_path / "a.elb").read_bytes() == (tmp_path / "b.elb").read_bytes()
    assert first.digest == second.digest


@pytest.mark.parametrize(
    "change", [{"release_version": "1.2.1"}, {"security_epoch": 4}, {"meta": {}}, {"model": vsr_qdq(seed=1)}]
)
def test_any_other_input_is_another_build(tmp_path: Path, change: dict[str, object]) -> None:
    assert build(tmp_path, "a.elb").build_id != build(tmp_path, "b.elb", **change).build_id


def test_the_report_tells_what_the_program_costs(tmp_path: Path) -> None:
    report = build(tmp_path).program("npu-4t")
    assert (report.kernels, report.launches, report.operators_before) == (4, 4, 15)
    assert report.sram_peak < report.naive_sram
    assert set(report.latency_ms["64x96"]) == {"ideal", "u85-like"}
    assert report.latency_ms["64x96"]["ideal"] < report.latency_ms["64x96"]["u85-like"]
    assert report.unfused == ()
    frames = 64 * 96 * 3 * 2 + 128 * 192 * 3
    assert report.ddr_bytes == frames
    assert all(profile.ddr_intermediate_bytes == 0 for profile in report.profiles)


def test_the_report_is_plain_json(tmp_path: Path) -> None:
    assert json.loads(json.dumps(build(tmp_path).to_json()))["release_version"] == "1.2.0"


def test_the_memory_map_lists_buffers_with_lifetimes(tmp_path: Path) -> None:
    build(tmp_path)
    memory = Bundle.open(tmp_path / "release.elb").json("npu-4t/memory_map.json")
    profile = memory["programs"]["model"]["64x96"]
    assert profile["peak"] >= profile["lower_bound"]
    names = {buffer["name"] for buffer in profile["buffers"]}
    assert {"<constants>", "<quant>", "head_relu_dq_q"} <= names
    assert all(buffer["first_step"] <= buffer["last_step"] for buffer in profile["buffers"])


def test_kernel_metadata_names_the_onnx_nodes(tmp_path: Path) -> None:
    build(tmp_path)
    metadata = Bundle.open(tmp_path / "release.elb").json("npu-4t/kernel_metadata.json")
    kernels = metadata["programs"]["model"]["kernels"]
    assert [kernel["name"] for kernel in kernels] == ["head", "block0", "block1", "tail"]
    assert kernels[0]["nodes"] == ["s2d_SpaceToDepth", "head_Conv", "head_relu_Relu"]
    tail = ["anchor_Resize", "shuffled_DepthToSpace", "sum_Add", "tail_Conv"]
    assert sorted(kernels[3]["nodes"]) == tail


def test_the_baseline_has_a_total_for_each_program_profile_and_array_model(tmp_path: Path) -> None:
    build(tmp_path)
    table = bytes(Bundle.open(tmp_path / "release.elb").piece("npu-4t/profile_baseline.csv")).decode()
    rows = list(csv.DictReader(io.StringIO(table)))
    assert tuple(rows[0]) == BASELINE_COLUMNS
    totals = [row for row in rows if row["kernel"] == "total"]
    assert len(totals) == 3 * 2 * 2
    for total in totals:
        key = ("program", "profile", "array_model")
        kernels = [r for r in rows if r["kernel"] != "total" and all(r[k] == total[k] for k in key)]
        assert sum(float(r["microseconds"]) for r in kernels) == pytest.approx(float(total["microseconds"]), rel=1e-3)


def test_without_quality_and_observer_those_pieces_are_absent(tmp_path: Path) -> None:
    build(tmp_path, quality=None, observer=None)
    names = Bundle.open(tmp_path / "release.elb").names
    assert "npu-4t/model.npu" in names
    assert not any("quality" in name or "observer" in name for name in names)


def test_an_error_in_the_quality_net_says_which_net_and_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"^quality net: model: not readable as ONNX"):
        build(tmp_path, quality=b"garbage")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_compilation_keeps_the_old_bundle(tmp_path: Path) -> None:
    build(tmp_path)
    before = (tmp_path / "release.elb").read_bytes()
    with pytest.raises((CompileError, BundleError)):
        build(tmp_path, model=b"garbage")
    assert (tmp_path / "release.elb").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_meta_fields_of_the_compiler_cannot_be_overridden(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="field build_id is set by the compiler"):
        build(tmp_path, meta={"build_id": "mine"})


def test_meta_that_is_no_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"^meta: not representable as JSON"):
        build(tmp_path, meta={"x": float("nan")})


def test_a_relu_that_cannot_fold_becomes_a_table() -> None:
    b = QdqBuilder(0)
    value = b.quantize("x", 1 / 255, 0, 3)
    b.quantize(b.node("Relu", [value], "relu"), 1 / 255, 0, 3, output="y")
    model = b.model({"x": [1, 3, "h", "w"]}, {"y": [1, 3, "h", "w"]})
    data, report = compile_program(model, "npu-4t", [(8, 12)])
    assert report.kernels == 1
    assert Program.open(data).names[0] == "table0"


def test_a_branch_that_no_output_needs_is_left_out() -> None:
    b = QdqBuilder(0)
    value = b.quantize("x", 1 / 255, 0, 3)
    b.conv(value, "wanted", 4)
    b.quantize("wanted", 0.02, 100, 4, output="y")
    b.conv(value, "idle", 4)
    b.quantize("idle", 0.02, 100, 4)
    model = b.model({"x": [1, 3, "h", "w"]}, {"y": [1, 4, "h", "w"]})
    assert compile_program(model, "npu-4t", [(8, 12)])[1].kernels == 1


def test_a_micro_program_compiles_in_milliseconds() -> None:
    compile_program(single_conv_qdq(), "npu-4t", [(90, 160)])
    started = time.process_time()
    for seed in range(10):
        compile_program(single_conv_qdq(seed=seed), "npu-4t", [(90, 160)])
    assert (time.process_time() - started) / 10 < 0.05


def test_the_oldest_driver_that_is_asked_for_has_to_have_every_operator(tmp_path: Path) -> None:
    b = QdqBuilder(0)
    value = b.quantize("x", 1 / 255, 0, 3)
    b.quantize(b.node("Relu", [value], "relu"), 1 / 255, 0, 3, output="y")
    model = b.model({"x": [1, 3, "h", "w"]}, {"y": [1, 3, "h", "w"]})
    old, new = CompileOptions(driver="1.0.0"), CompileOptions(driver="1.9.0")
    compile_program(model, "npu-4t", [(8, 12)], old)
    tokens = HOST["dynamic upsampling"]()
    with pytest.raises(CompileError, match="driver"):
        compile_program(tokens, "npu-4t", [(8, 12)], old)
    with pytest.raises(CompileError, match="driver"):
        compile_bundle(tokens, None, None, ["npu-4t"], [(8, 12)], {}, tmp_path / "a.elb", "1", 1, options=old)
    assert not (tmp_path / "a.elb").exists()
    assert compile_program(model, "npu-4t", [(8, 12)], new)[1].kernels == 1
