"""Command line: compile, inspect, verify, compare-perf.

Exit codes: 0 done; 1 the check said no (verify, compare-perf); 2 bad input or usage, one line on stderr. With
``--json`` stdout carries one JSON value and nothing else.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from compiler.driver import compile_bundle
from compiler.errors import CompileError
from compiler.inspection import inspect_file
from compiler.perf import PerfLimits, compare
from compiler.rendering import render_inspection, render_report
from compiler.verifier import Finding, verify_program
from contracts.bundle import Bundle, BundleError
from contracts.npu import Program, ProgramError, UnknownTarget, load_spec

Json = Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout.")]
_ERRORS = (CompileError, BundleError, ProgramError, UnknownTarget, OSError)
_PROFILE = re.compile(r"^(\d{1,5})x(\d{1,5})$")

app = typer.Typer(no_args_is_help=True, add_completion=False, help="The compiler's commands.")


@app.command("compile")
def compile_command(
    model: Annotated[Path, typer.Argument(help="INT8 QDQ ONNX model (super resolution).")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Bundle to write (*.elb).")],
    quality: Annotated[Path | None, typer.Option(help="Quality net, INT8 QDQ ONNX.")] = None,
    observer: Annotated[Path | None, typer.Option(help="Observer parameters (npz).")] = None,
    target: Annotated[list[str] | None, typer.Option(help="NPU target; may repeat. Default npu-4t.")] = None,
    profile: Annotated[list[str] | None, typer.Option(help="Input size HEIGHTxWIDTH; may repeat.")] = None,
    meta: Annotated[Path | None, typer.Option(help="JSON object with further fields for meta.json.")] = None,
    release_version: Annotated[str, typer.Option(help="Version of the release.")] = "0.0.0",
    security_epoch: Annotated[int, typer.Option(min=0, help="Security epoch of the release.")] = 0,
    as_json: Json = False,
) -> None:
    """Compile a model into a bundle.

    Example: edgeloop compile vsr.onnx --quality quality.onnx --target npu-4t --target npu-2t
    --profile 360x640 --out release.elb
    """
    with _reported():
        if not out.parent.is_dir():
            raise CompileError(str(out.parent), "this folder does not exist", "create it or give another --out")
        with _progress(quiet=as_json) as step:
            report = compile_bundle(
                model.read_bytes(),
                quality.read_bytes() if quality else None,
                observer.read_bytes() if observer else None,
                target or ["npu-4t"],
                [_size(text) for text in profile or []],
                _object(meta) if meta else {},
                out,
                release_version,
                security_epoch,
                step,
            )
        if as_json:
            _print_json(report.to_json())
        else:
            render_report(_console(), report)


@app.command("inspect")
def inspect_command(
    file: Annotated[Path, typer.Argument(help="Bundle (*.elb) or program (*.npu).")], as_json: Json = False
) -> None:
    """Show what a bundle holds: kernels, times under both array models, memory, reasons.

    Example: edgeloop inspect release.elb --json
    """
    with _reported():
        facts = inspect_file(file)
        if as_json:
            _print_json(facts)
        else:
            render_inspection(_console(), facts)


@app.command("verify")
def verify_command(
    file: Annotated[Path, typer.Argument(help="Bundle (*.elb) or program (*.npu).")], as_json: Json = False
) -> None:
    """Check a bundle or program: hashes, build ids, and every rule of the command streams. Exit 1 on a
    finding.

    Example: edgeloop verify release.elb
    """
    with _reported():
        findings = {name: verify_program(program, load_spec(program.target)) for name, program in _programs(file)}
        if as_json:
            lists = {name: [asdict(finding) for finding in found] for name, found in findings.items()}
            _print_json({"file": str(file), "ok": not any(findings.values()), "programs": lists})
        else:
            _print_findings(findings)
    if any(findings.values()):
        raise typer.Exit(1)


@app.command("compare-perf")
def compare_perf_command(
    current: Annotated[Path, typer.Argument(help="Bundle or profile_baseline.csv of the new build.")],
    baseline: Annotated[Path, typer.Argument(help="Bundle or profile_baseline.csv to compare against.")],
    latency_percent: Annotated[float, typer.Option(min=0, help="Latency growth allowed.")] = 5.0,
    ddr_percent: Annotated[float, typer.Option(min=0, help="DDR traffic growth allowed.")] = 10.0,
    as_json: Json = False,
) -> None:
    """Compare two builds' estimated profiles. Exit 1 on a regression, naming the kernel that grew the most.

    Example: edgeloop compare-perf new.elb production.elb
    """
    with _reported():
        limits = PerfLimits(latency_percent, ddr_percent)
        regressions = compare(_profile_table(current), _profile_table(baseline), limits)
        if as_json:
            _print_json({"ok": not regressions, "regressions": [asdict(entry) for entry in regressions]})
        else:
            console = _console()
            for entry in regressions:
                console.print(f"[red]regression[/red] {entry}", soft_wrap=True)
            if not regressions:
                console.print("[green]no regression[/green]")
    if regressions:
        raise typer.Exit(1)


def _programs(file: Path) -> Iterator[tuple[str, Program]]:
    if file.suffix == ".npu":
        yield file.name, Program.open(file.read_bytes())
        return
    bundle = Bundle.open(file)
    for name in bundle.names:
        if name.endswith(".npu"):
            target, _, program = name.removesuffix(".npu").partition("/")
            yield name, bundle.program(target, program)


def _profile_table(file: Path) -> bytes:
    if file.suffix == ".csv":
        return file.read_bytes()
    bundle = Bundle.open(file)
    tables = [bytes(bundle.piece(name)) for name in bundle.names if name.endswith("/profile_baseline.csv")]
    if not tables:
        raise CompileError(str(file), "the bundle has no profile_baseline.csv", "compile it again")
    return tables[0] + b"".join(table.split(b"\n", 1)[1] for table in tables[1:])


def _print_findings(findings: dict[str, list[Finding]]) -> None:
    console = _console()
    for name, found in findings.items():
        state = f"[red]{len(found)} findings[/red]" if found else "[green]verified[/green]"
        console.print(f"{name}: {state}")
        for finding in found:
            console.print(f"  {finding}", soft_wrap=True)


def _size(text: str) -> tuple[int, int]:
    match = _PROFILE.match(text)
    if not match:
        raise CompileError("--profile", f"{text!r} is not HEIGHTxWIDTH", "write for example 360x640")
    return int(match[1]), int(match[2])


def _object(path: Path) -> dict[str, object]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CompileError(str(path), f"not JSON ({error})", "give a JSON object") from error
    if not isinstance(value, dict):
        raise CompileError(str(path), "not a JSON object", "give a JSON object")
    return value


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 120)


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2))


@contextmanager
def _reported() -> Iterator[None]:
    try:
        yield
    except _ERRORS as error:
        _fail(error)


def _fail(error: BaseException) -> NoReturn:
    typer.echo(f"error: {error}", err=True)
    raise typer.Exit(2) from error


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading", total=None)
        yield lambda text: progress.update(task, description=text)
