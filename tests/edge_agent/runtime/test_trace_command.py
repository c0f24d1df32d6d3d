"""The command that writes a kernel trace: a file that loads, or one line that says what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from compiler.driver import compile_bundle
from edge_agent.runtime.npu.trace_command import kernel_trace
from tests.edge_agent.runtime.striped import striped_net
from tests.support.models import quality_qdq, vsr_qdq

app = typer.Typer()
app.command()(kernel_trace)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "a.npu"
    path.write_bytes(striped_net().program)
    return path


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def test_a_program_becomes_a_trace_that_loads(program: Path, tmp_path: Path) -> None:
    out = tmp_path / "trace.json"
    code, said = run(program, out, "--frames", 3, "--ambient", 40)
    assert (code, "3 frames" in said) == (0, True)
    names = {event["name"] for event in json.loads(out.read_text())["traceEvents"]}
    assert {"SRAM", "temperature", "block0"} <= names


def test_a_bundle_s_program_is_traced_for_its_target(tmp_path: Path) -> None:
    bundle, out = tmp_path / "a.elb", tmp_path / "trace.json"
    compile_bundle(vsr_qdq(), quality_qdq(), None, ["npu-2t"], [(36, 44)], {}, bundle, "1", 1)
    assert run(bundle, out, "--device-class", "npu-2t", "--program", "quality")[0] == 0
    assert json.loads(out.read_text())["traceEvents"][0]["args"]["name"] == "npu-2t (u85-like)"
    code, said = run(bundle, out, "--device-class", "npu-4t")
    assert (code, "npu-2t" in said) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--profile", "9x9"], "it has 24x16"),
        (["--array-model", "abacus"], "no array model"),
        (["--frames", "0"], "--frames"),
    ],
)
def test_a_wrong_option_is_one_line_and_no_file(
    program: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    out = tmp_path / "trace.json"
    code, said = run(program, out, *arguments)
    assert (code, words in said) == (2, True)
    assert not out.exists()


def test_a_program_for_an_unknown_target_names_the_known_ones(tmp_path: Path) -> None:
    path = tmp_path / "a.npu"
    path.write_bytes(striped_net(target="npu-9t").program)
    code, said = run(path, tmp_path / "trace.json")
    assert (code, "npu-4t" in said) == (2, True)
    assert [found.name for found in tmp_path.iterdir()] == ["a.npu"]


@pytest.mark.parametrize("content", [b"", b"ELNP", b"PK nothing"])
@pytest.mark.parametrize("name", ["a.npu", "a.elb"])
def test_a_file_that_is_none_is_one_line(tmp_path: Path, content: bytes, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    code, said = run(path, tmp_path / "trace.json")
    assert code == 2
    assert "Traceback" not in said
    assert run(tmp_path / "missing.npu", tmp_path / "trace.json")[0] == 2
