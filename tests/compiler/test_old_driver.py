"""Old drivers: what one lacks is made of what it has or runs on the CPU, and no byte changes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from compiler import golden
from compiler.cli import app
from compiler.driver import compile_one, compile_program, read_model
from compiler.errors import UnsupportedModel
from compiler.ir import Add, Conv, Graph, Residual, Table, Value, flat
from compiler.operators import unsupported
from compiler.options import CompileOptions
from compiler.passes.affine_tables import as_convolution
from compiler.passes.base import apply
from compiler.passes.old_driver import OldDriver
from compiler.passes.pipeline import fuse
from compiler.timing import estimate
from contracts.npu import Program, load_spec
from contracts.npu.program import FLAG_HOST
from edge_agent.runtime.npu import DriverTooOld, Faults, NpuDevice
from tests.compiler.helpers import assert_text, imported, transcript
from tests.compiler.host_nets import HOST
from tests.compiler.oracle import frame_of
from tests.compiler.qdq_cases import EXACT, NEAR, TIES
from tests.compiler.qdq_nets import SHAPE
from tests.support.models import recurrent_qdq

CASES = {**EXACT, **NEAR, **TIES, "recurrent": recurrent_qdq}
FIRST = CompileOptions(driver="1.0.0")
ON_HOST_ONLY = {"softmax over channels", "softmax over rows", "softmax over columns", "attention"}


@pytest.mark.parametrize("name", [name for name in CASES if name not in ON_HOST_ONLY])
def test_the_first_driver_gives_the_golden_bytes(name: str) -> None:
    size = (32, 48) if name == "recurrent" else SHAPE
    compiled, entry = compile_one(CASES[name](), "npu-4t", [size], FIRST)
    assert unsupported(compiled.fused.graph, "1.0.0") == ()
    device = NpuDevice("npu-4t", jitter=0.0, faults=Faults(driver="1.0.0"))
    loaded = device.load(Program.open(compiled.data), bind_all=True)
    graph = read_model("model", CASES[name](), [size]).profiles[0].imported
    frame = frame_of(graph, 1)
    outputs = device.infer(loaded, frame).outputs
    for output, image in golden.run(graph, frame).items():
        if output in outputs:
            np.testing.assert_array_equal(outputs[output], image)
    assert entry.profiles[0].fused.changes == compiled.fused.changes


@pytest.mark.parametrize("name", [*HOST, *sorted(ON_HOST_ONLY)])
def test_what_nothing_can_run_is_refused_with_the_driver_that_can(name: str) -> None:
    model, size = (HOST[name](), SHAPE) if name in HOST else (CASES[name](), SHAPE)
    with pytest.raises(
        UnsupportedModel, match=r"Host needs driver 1\.2\.0, 1\.1\.0 lacks it.* nothing else can run it"
    ):
        compile_program(model, "npu-4t", [size], CompileOptions(driver="1.1.0"))
    compile_program(model, "npu-4t", [size], CompileOptions(driver="1.2.0"))


@pytest.mark.parametrize("name", ["hard swish", "max pool", "mul", "linear x2", "concat channels", "relu"])
def test_a_driver_that_has_everything_changes_nothing(name: str) -> None:
    old, new = (compile_program(CASES[name](), "npu-4t", [SHAPE], CompileOptions(driver=d)) for d in (None, "1.1.0"))
    assert Program.open(old[0]).commands(0).tobytes() == Program.open(new[0]).commands(0).tobytes()
    assert old[1].changes == new[1].changes


@pytest.mark.parametrize("name", ["relu", "relu, other scale", "neg", "add a number", "times a number"])
def test_a_table_that_is_a_line_stays_on_the_npu(name: str) -> None:
    compiled, _ = compile_one(CASES[name](), "npu-4t", [SHAPE], FIRST)
    assert {type(step) for step in flat(compiled.fused.graph.operators)} == {Conv}
    assert any("a depthwise convolution with the same 256 answers" in line for line in compiled.fused.changes)


@pytest.mark.parametrize("name", ["hard swish", "max pool", "mul", "linear x2"])
def test_what_has_no_decomposition_runs_on_the_cpu_and_the_report_names_the_driver(name: str) -> None:
    data, report = compile_program(CASES[name](), "npu-4t", [SHAPE], FIRST)
    assert any(" on the CPU, because driver 1.0.0 lacks what 1.1.0 has" in line for line in report.changes)
    answer = dict(report.profiles[0].answers)["on the CPU"]
    assert "driver 1.0.0 has no " in answer
    assert (Program.open(data).commands(0)["flags"] & FLAG_HOST != 0).any()


def test_the_fallbacks_of_a_small_graph_are_what_the_text_says() -> None:
    graph = fuse(imported(CASES["concat, other scales"](), *SHAPE)).graph
    assert_text("old_driver", transcript(graph, apply(OldDriver("1.0.0"), graph)))


def difference(scales: tuple[float, float, float]) -> Graph:
    a, b, y = (Value(name, 4, 6, 2, scale, 100) for name, scale in zip("aby", scales, strict=True))
    step = Add("minus", "a", "b", "y", subtract=True, origin=("n",))
    values = {value.name: value for value in (a, b, y)}
    copy = Table("copy", "a", "b", np.arange(256, dtype=np.uint8)[::-1][None, :].copy())
    return Graph("g", "a", (("y", "y"),), values, (copy, step))


@pytest.mark.parametrize("scales", [(0.02, 0.02, 0.02), (0.02, 0.02, 0.04), (0.0213, 0.0317, 0.0411)])
def test_a_subtraction_keeps_every_byte(scales: tuple[float, float, float]) -> None:
    graph = difference(scales)
    placed = apply(OldDriver("1.0.0"), graph).graph
    assert unsupported(placed, "1.0.0") == ()
    frame = np.random.default_rng(1).integers(0, 256, (4, 6, 2), dtype=np.uint8)
    np.testing.assert_array_equal(golden.run(placed, frame)["y"], golden.run(graph, frame)["y"])


def test_a_subtraction_that_no_addition_equals_runs_on_the_cpu() -> None:
    found = [difference((0.02 + seed * 1.7e-4, 0.031 - seed * 2.3e-4, 0.0173)) for seed in range(40)]
    steps = [list(flat(apply(OldDriver("1.0.0"), graph).graph.operators))[-1] for graph in found]
    kinds = {bool(step.host) for step in steps if isinstance(step, Add)}
    assert kinds == {False, True}, "some scales allow the addition, some do not"


def test_a_fused_subtraction_leaves_its_convolution() -> None:
    graph = imported(CASES["add"](), *SHAPE)
    fused = fuse(graph).graph
    convs = [op for op in fused.operators if isinstance(op, Conv) and op.residual is not None]
    assert convs, "the case has a fused sum"
    conv = convs[-1]
    assert isinstance(conv.residual, Residual)
    minus = replace(conv, residual=replace(conv.residual, subtract=True))
    taken = replace(fused, operators=tuple(minus if op is conv else op for op in fused.operators))
    placed = apply(OldDriver("1.0.0"), taken)
    assert unsupported(placed.graph, "1.0.0") == ()
    frame = frame_of(graph, 3)
    for name, image in golden.run(taken, frame).items():
        np.testing.assert_array_equal(golden.run(placed.graph, frame)[name], image)
    assert any("its sum are two kernels" in line for line in placed.changes)


def test_a_curve_is_no_line_and_a_bent_line_is_none_either() -> None:
    source = Value("x", 2, 3, 1, 0.02, 128)
    codes = np.arange(256)
    bent = np.where(codes < 128, codes // 2 + 64, codes).astype(np.uint8)
    curve = (codes.astype(np.int64) ** 2 // 255).astype(np.uint8)
    for table in (bent, curve):
        assert as_convolution(Table("t", "x", "y", table[None, :]), source, replace(source, name="y")) is None


@pytest.mark.parametrize("name", ["hard swish", "max pool", "global max pool", "mul", "linear x2"])
def test_emulator_and_compiler_charge_the_same_for_the_host(name: str) -> None:
    data, _ = compile_program(CASES[name](), "npu-4t", [SHAPE], FIRST)
    program, spec = Program.open(data), load_spec("npu-4t")
    device = NpuDevice(spec, jitter=0.0)
    for model in spec.array_models:
        frame = estimate(program.commands(0)[program.profiles[0].n_prologue :], program.names, spec, model)
        emulated = device.nominal_time(device.load(program), 0, model.name)
        assert emulated.total_ns == pytest.approx(frame.total_ns, rel=1e-3)
        assert frame.total_ns > spec.host_call_us * 1000


def test_a_device_refuses_the_new_driver_s_program_and_takes_the_old_one_s() -> None:
    device = NpuDevice("npu-4t", faults=Faults(driver="1.0.0"))
    new, old = (
        compile_program(CASES["hard swish"](), "npu-4t", [SHAPE], CompileOptions(driver=d))[0] for d in (None, "1.0.0")
    )
    with pytest.raises(DriverTooOld, match=r"TABLE needs driver 1\.1\.0"):
        device.load(Program.open(new))
    device.load(Program.open(old))


def test_the_pieces_of_a_bundle_name_the_driver(tmp_path: Path) -> None:
    model, out = tmp_path / "swish.onnx", tmp_path / "b.elb"
    model.write_bytes(CASES["hard swish"]())
    arguments = ["compile", str(model), "--out", str(out), "--profile", f"{SHAPE[0]}x{SHAPE[1]}", "--driver", "1.0.0"]
    told = CliRunner().invoke(app, arguments)
    assert told.exit_code == 0, told.output
    assert "driver 1.0.0 has no TABLE, 1.1.0 has" in told.stdout.replace("\n", " ")
    facts = json.loads(CliRunner().invoke(app, ["inspect", str(out), "--json"]).stdout)
    placed = [entry for program in facts["programs"] for entry in program["placement"] if entry["unit"] == "CPU"]
    assert placed
    assert all("driver 1.0.0" in entry["reason"] for entry in placed)
    assert CliRunner().invoke(app, ["verify", str(out)]).exit_code == 0
