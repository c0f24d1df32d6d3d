"""The command line: exit codes, JSON, one line for an error, no partial file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from compiler.cli import app
from compiler.driver import compile_program
from contracts.npu import Op, Program, ProgramWriter
from tests.compiler.host_nets import HOST
from tests.support.models import quality_qdq, vsr_qdq


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli")
    (path / "vsr.onnx").write_bytes(vsr_qdq())
    (path / "wide.onnx").write_bytes(vsr_qdq(channels=24, mid=24))
    (path / "quality.onnx").write_bytes(quality_qdq())
    (path / "meta.json").write_text('{"family": "demo"}')
    assert compiled(path, "vsr.onnx", "a.elb", "--quality", str(path / "quality.onnx")).exit_code == 0
    assert compiled(path, "wide.onnx", "wide.elb").exit_code == 0
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def compiled(path: Path, model: str, out: str, *more: str) -> Result:
    return run("compile", path / model, "--profile", "64x96", "--out", path / out, *more)


def test_compile_prints_a_table_of_both_array_models(folder: Path) -> None:
    result = compiled(folder, "vsr.onnx", "b.elb")
    assert result.exit_code == 0
    assert result.stdout.startswith("npu-4t/model 64x96\n         fits  yes: SRAM ")
    assert "ideal ms" in result.stdout
    assert "u85-like ms" in result.stdout
    assert "npu-4t/model" in result.stdout


def test_compile_json_is_one_value(folder: Path) -> None:
    result = compiled(folder, "vsr.onnx", "b.elb", "--json", "--meta", str(folder / "meta.json"))
    assert json.loads(result.stdout)["programs"][0]["kernels"] == 4


def test_inspect_shows_kernels_and_reads_back_the_estimate(folder: Path) -> None:
    facts = json.loads(run("inspect", folder / "a.elb", "--json").stdout)
    profile = facts["programs"][0]["profiles"][0]
    assert [row["kernel"] for row in profile["kernels"]] == ["head", "block0", "block1", "tail"]
    assert profile["naive_sram"] > profile["sram_peak"]
    assert profile["reasons"] == []
    text = run("inspect", folder / "a.elb").stdout
    assert "block0" in text
    assert "npu-4t/quality" in text


def test_inspect_writes_one_page(folder: Path) -> None:
    result = run("inspect", folder / "a.elb", "--html", folder / "a.html")
    assert (result.exit_code, result.stdout) == (0, f"{folder / 'a.html'} written\n")
    assert "<title>a.elb on its NPU</title>" in (folder / "a.html").read_text()
    assert not list(folder.glob(".*"))


def test_a_page_that_cannot_be_written_leaves_the_old_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    (folder / "full.html").write_text("old")
    monkeypatch.setattr("os.fsync", full)
    result = run("inspect", folder / "a.elb", "--html", folder / "full.html")
    assert (result.exit_code, result.stderr) == (2, "error: [Errno 28] No space left on device\n")
    assert (folder / "full.html").read_text() == "old"
    assert not list(folder.glob(".*"))


def test_inspect_can_print_json_and_write_the_page_at_once(folder: Path) -> None:
    result = run("inspect", folder / "a.elb", "--json", "--html", folder / "b.html")
    assert json.loads(result.stdout)["file"] == "a.elb"
    assert (folder / "b.html").exists()


def test_inspect_answers_the_five_questions_first(folder: Path) -> None:
    lines = run("inspect", folder / "a.elb").stdout.splitlines()
    start = lines.index("npu-4t/model 64x96")
    asked = [line.split("  ")[-2].strip() for line in lines[start + 1 : start + 6]]
    assert asked == ["fits", "time", "limited by", "on the CPU", "not fused"]


def test_experiments_switch_parts_of_the_compiler_off(folder: Path) -> None:
    naive = compiled(folder, "vsr.onnx", "n.elb", "--json", "--no-fuse", "--no-plan", "--no-depth-first")
    best = compiled(folder, "vsr.onnx", "b.elb", "--json")
    launches = [json.loads(result.stdout)["programs"][0]["launches"] for result in (naive, best)]
    assert launches[0] > 2 * launches[1]
    assert "--no-fuse" not in run("compile", "--help").stdout


def test_widths_become_profiles_of_one_program(folder: Path) -> None:
    result = compiled(folder, "wide.onnx", "w.elb", "--json", "--width", f"0.5={folder / 'vsr.onnx'}")
    program, little = json.loads(result.stdout)["programs"]
    assert [profile["name"] for profile in little["profiles"]] == ["64x96"]
    assert [profile["name"] for profile in program["profiles"]] == ["64x96", "64x96@0.5"]
    assert run("inspect", folder / "w.elb", "--html", folder / "w.html").exit_code == 0


def test_a_model_that_an_old_driver_runs_is_compiled_for_it(folder: Path) -> None:
    assert compiled(folder, "vsr.onnx", "d.elb", "--driver", "1.0.0").exit_code == 0


def test_an_operator_that_an_old_driver_lacks_is_named(folder: Path) -> None:
    (folder / "warp.onnx").write_bytes(HOST["global motion warp"]())
    assert compiled(folder, "warp.onnx", "d.elb", "--driver", "1.2.0").exit_code == 0
    result = compiled(folder, "warp.onnx", "old.elb", "--driver", "1.0.0")
    assert result.exit_code == 2
    assert "Host needs driver 1.2.0, 1.0.0 lacks it" in result.stderr
    assert "nothing else can run it" in result.stderr
    assert not (folder / "old.elb").exists()


def test_streams_share_a_launch(folder: Path) -> None:
    result = compiled(folder, "vsr.onnx", "s.elb", "--json", "--streams", "3")
    (profile,) = json.loads(result.stdout)["programs"][0]["profiles"]
    assert (profile["name"], profile["launches"]) == ("64x96x3", 4)
    assert " for 3 frames" in dict(profile["answers"])["time"]


def test_inspect_takes_a_bare_program(folder: Path) -> None:
    data, _ = compile_program(vsr_qdq(), "npu-4t", [(64, 96)])
    (folder / "bare.npu").write_bytes(data)
    assert run("inspect", folder / "bare.npu").exit_code == 0
    assert json.loads(run("verify", folder / "bare.npu", "--json").stdout)["ok"] is True


@pytest.mark.parametrize(("field", "value"), [("kernel", 999), ("op", 77)])
def test_a_stream_without_sense_is_one_line(folder: Path, field: str, value: int) -> None:
    program = Program.open(compile_program(vsr_qdq(), "npu-4t", [(64, 96)])[0])
    commands = program.commands(0).copy()
    commands[field][commands["op"] == Op.CONV] = value
    writer = ProgramWriter(program.target, program.build_id)
    writer.add_profile(program.profiles[0], commands)
    data = writer.to_bytes(program.names, program.constants.tobytes(), program.quant.tobytes())
    (folder / "odd.npu").write_bytes(data)
    for more in ([], ["--json"], ["--html", str(folder / "x.html")]):
        result = run("inspect", folder / "odd.npu", *more)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        assert "ask edgeloop verify what is wrong" in result.stderr
        assert not (folder / "x.html").exists()
    assert run("verify", folder / "odd.npu").exit_code == 1


def test_verify_accepts_a_good_bundle(folder: Path) -> None:
    result = run("verify", folder / "a.elb")
    assert result.exit_code == 0
    assert result.stdout.count("verified") == 3


def test_verify_refuses_a_damaged_bundle(folder: Path) -> None:
    data = bytearray((folder / "a.elb").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "damaged.elb").write_bytes(data)
    result = run("verify", folder / "damaged.elb")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: bundle piece ")
    assert result.stderr.count("\n") == 1


def test_compare_perf_exits_one_and_names_the_kernel(folder: Path) -> None:
    assert run("compare-perf", folder / "a.elb", folder / "a.elb").exit_code == 0
    result = run("compare-perf", folder / "wide.elb", folder / "a.elb", "--json")
    assert result.exit_code == 1
    regressions = json.loads(result.stdout)["regressions"]
    assert any(entry["kernel"] == "block0" for entry in regressions)
    text = run("compare-perf", folder / "wide.elb", folder / "a.elb").stdout
    assert "regression npu-4t/model 64x96 u85-like: " in text
    assert "npu-4t/quality 64x96 ideal: the baseline has it" in text


def test_compare_perf_judges_the_devices_own_time(folder: Path) -> None:
    for name, step in (("fast.csv", 1.0), ("slow.csv", 1.1)):
        rows = "".join(f"{kernel},{step * 100 + n / 100}\n" for n in range(100) for kernel in ("head", "tail"))
        (folder / name).write_text(f"kernel,microseconds\n{rows}")
    both = (folder / "a.elb", folder / "a.elb", "--measures", "npu-4t/model/64x96", "--measured")
    fast, slow = folder / "fast.csv", folder / "slow.csv"
    assert run("compare-perf", *both, fast, "--baseline-measured", fast).exit_code == 0
    result = run("compare-perf", *both, slow, "--baseline-measured", fast)
    assert result.exit_code == 1
    assert "npu-4t/model 64x96 measured: " in result.stdout
    assert run("compare-perf", slow, fast).exit_code == 1


def test_compare_perf_keeps_a_budget(folder: Path) -> None:
    result = run("compare-perf", folder / "a.elb", folder / "a.elb", "--sram-bytes", "1000", "--json")
    assert result.exit_code == 1
    assert {entry["measure"] for entry in json.loads(result.stdout)["regressions"]} == {"sram_bytes"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compile", "nowhere.onnx", "--out", "x.elb"], "nowhere.onnx"),
        (["compile", "{vsr}", "--out", "{folder}/none/x.elb"], "this folder does not exist"),
        (["compile", "{vsr}", "--out", "{folder}/x.elb"], "give a profile, for example 360x640"),
        (["compile", "{vsr}", "--out", "{folder}/x.elb", "--profile", "big"], "'big' is not HEIGHTxWIDTH"),
        (["compile", "{vsr}", "--out", "{folder}/x.elb", "--profile", "64x96", "--target", "npu-1t"], "npu-1t"),
        (["compile", "{vsr}", "--out", "{folder}/x.elb", "--profile", "64x96", "--meta", "{vsr}"], "not JSON"),
        (["compile", "{vsr}", "--out", "{folder}/x.elb", "--profile", "64x96", "--streams", "99"], "99 streams"),
        (["compile", "{vsr}", "--out", "{folder}/x.elb", "--profile", "64x96", "--width", "half"], "not NAME=FILE"),
        (["compile", "{vsr}", "--out", "{folder}/x.elb", "--profile", "64x96", "--driver", "old"], "not a version"),
        (["compile", "{vsr}", "--out", "{folder}/x.elb", "--profile", "64x96", "--driver", "2.0"], "is none of them"),
        (["inspect", "{vsr}"], "not a readable bundle"),
        (["inspect", "{vsr}", "--html", "{folder}/x.html"], "not a readable bundle"),
        (["inspect", "{folder}/a.elb", "--html", "{folder}/none/x.html"], "this folder does not exist"),
        (["verify", "{folder}/nothing.elb"], "nothing.elb"),
        (["compare-perf", "{vsr}", "{vsr}"], "not a profile table"),
        (["compare-perf", "{folder}/nothing.elb", "{folder}/a.elb"], "nothing.elb"),
        (["compare-perf", "{folder}/a.elb", "{folder}/a.elb", "--measured", "{vsr}"], "give --measured and"),
    ],
)
def test_bad_input_is_one_line_and_exit_two(folder: Path, arguments: list[str], message: str) -> None:
    filled = [text.format(vsr=folder / "vsr.onnx", folder=folder) for text in arguments]
    result = run(*filled)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    assert not [file for file in folder.iterdir() if file.name.lstrip(".").startswith("x.")]


def test_help_shows_an_example() -> None:
    for command in ("compile", "inspect", "verify", "compare-perf"):
        assert "Example: edgeloop" in run(command, "--help").stdout
