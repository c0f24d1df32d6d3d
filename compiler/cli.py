"""Command line: compile, inspect, verify, compare-perf.

Exit codes: 0 done; 1 the check said no (verify, compare-perf); 2 bad input or usage, one line on stderr. With
``--json`` stdout carries one JSON value and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from compiler.cli_support import (
    check_folder,
    console,
    frame_size,
    json_object,
    print_json,
    reported,
    sensible,
    shown_progress,
    widths_of,
    write_whole,
)
from compiler.driver import compile_bundle
from compiler.entropy import expanded
from compiler.errors import CompileError
from compiler.html import render_page
from compiler.inspection import facts
from compiler.measures.views import view_file
from compiler.options import AUTO, DEFAULT, OFF, CompileOptions
from compiler.perf import PerfLimits, Tables, judge, read, read_trace, with_trace
from compiler.rendering import render_comparison, render_inspection, render_report
from compiler.verifier import Finding, verify_program
from contracts.bundle import Bundle
from contracts.npu import Program, load_spec

Json = Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout.")]

app = typer.Typer(no_args_is_help=True, add_completion=False, help="The compiler's commands.")


@app.command("compile")
def compile_command(
    model: Annotated[Path, typer.Argument(help="INT8 ONNX model, QDQ or QOperator (super resolution).")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Bundle to write (*.elb).")],
    quality: Annotated[Path | None, typer.Option(help="Quality net, INT8 ONNX.")] = None,
    observer: Annotated[Path | None, typer.Option(help="Observer parameters (npz).")] = None,
    target: Annotated[list[str] | None, typer.Option(help="NPU target; may repeat. Default npu-4t.")] = None,
    profile: Annotated[list[str] | None, typer.Option(help="Input size HEIGHTxWIDTH; may repeat.")] = None,
    width: Annotated[
        list[str] | None, typer.Option(help="Narrower variant of the model, NAME=FILE; may repeat. Shares its program.")
    ] = None,
    driver: Annotated[
        str | None,
        typer.Option(help="Oldest driver that must run it, e.g. 1.1.0; what that one lacks is placed elsewhere."),
    ] = None,
    little: Annotated[
        str,
        typer.Option(
            help="Kernels for the little core of a hot or empty device: auto, same (net), a width's name, none."
        ),
    ] = AUTO,
    effort: Annotated[
        str, typer.Option(help="Memory planner: fast, or thorough (exact search for the lowest SRAM peak).")
    ] = DEFAULT.effort,
    effort_seconds: Annotated[
        float, typer.Option(help="Time limit of a thorough search, for each profile.")
    ] = DEFAULT.effort_seconds,
    entropy: Annotated[
        str,
        typer.Option(help="Code constants with fewer bits: auto (where worth it), on, off. Agents must read format 4."),
    ] = OFF,
    streams: Annotated[int, typer.Option(help="Frames of so many video streams in one run, 1 to 64.")] = 1,
    meta: Annotated[Path | None, typer.Option(help="JSON object with further fields for meta.json.")] = None,
    release_version: Annotated[str, typer.Option(help="Version of the release.")] = "0.0.0",
    security_epoch: Annotated[int, typer.Option(min=0, help="Security epoch of the release.")] = 0,
    fuse: Annotated[bool, typer.Option("--fuse/--no-fuse", hidden=True, help="Merge operators.")] = True,
    plan: Annotated[bool, typer.Option("--plan/--no-plan", hidden=True, help="Share SRAM.")] = True,
    depth_first: Annotated[bool, typer.Option("--depth-first/--no-depth-first", hidden=True, help="Stripes.")] = True,
    double_buffer: Annotated[
        bool, typer.Option("--double-buffer/--no-double-buffer", hidden=True, help="Transfers one stripe ahead.")
    ] = True,
    stripe_rows: Annotated[int | None, typer.Option(hidden=True, help="Rows of a stripe.")] = None,
    as_json: Json = False,
) -> None:
    """Compile a model into a bundle. Says first whether it fits, how long a frame takes, what limits it, and what
    did not map and why.

    Example: edgeloop compile vsr.onnx --profile 360x640 --out vsr.elb

    Example: edgeloop compile vsr.onnx --quality quality.onnx --target npu-4t --target npu-2t --profile 360x640
    --profile 540x960 --out release.elb --json
    """
    with reported():
        options = CompileOptions(
            fuse,
            plan,
            depth_first,
            double_buffer,
            stripe_rows,
            streams,
            driver,
            little,
            effort,
            effort_seconds,
            entropy,
        )
        check_folder(out)
        with shown_progress(quiet=as_json) as step:
            sizes, targets = [frame_size(text) for text in profile or []], target or ["npu-4t"]
            report = compile_bundle(
                model.read_bytes(),
                quality.read_bytes() if quality else None,
                observer.read_bytes() if observer else None,
                targets,
                sizes,
                json_object(meta) if meta else {},
                out,
                release_version,
                security_epoch,
                step,
                options,
                widths_of(width or []),
            )
        if as_json:
            print_json(report.to_json())
        else:
            render_report(console(), report)


@app.command("inspect")
def inspect_command(
    file: Annotated[Path, typer.Argument(help="Bundle (*.elb) or program (*.npu).")],
    html: Annotated[Path | None, typer.Option(help="Write one HTML page: memory map, timeline, times.")] = None,
    as_json: Json = False,
) -> None:
    """Show what a bundle holds: kernels, times under both array models, memory, reasons.

    Example: edgeloop inspect release.elb

    Example: edgeloop inspect release.elb --html release.html
    """
    with reported():
        if html is not None:
            check_folder(html)
        view = view_file(file)
        with sensible(file):
            if html is not None:
                write_whole(html, render_page(view))
            if as_json:
                print_json(facts(view))
            elif html is not None:
                console().print(f"{html} written", soft_wrap=True, highlight=False, markup=False)
            else:
                render_inspection(console(), view)


@app.command("verify")
def verify_command(
    file: Annotated[Path, typer.Argument(help="Bundle (*.elb) or program (*.npu).")], as_json: Json = False
) -> None:
    """Check a bundle or program: hashes, build ids, and every rule of the command streams. Exit 1 on a
    finding.

    Example: edgeloop verify release.elb
    """
    with reported():
        findings = {name: verify_program(program, load_spec(program.target)) for name, program in _programs(file)}
        if as_json:
            lists = {name: [asdict(finding) for finding in found] for name, found in findings.items()}
            print_json({"file": str(file), "ok": not any(findings.values()), "programs": lists})
        else:
            _print_findings(findings)
    if any(findings.values()):
        raise typer.Exit(1)


@app.command("compare-perf")
def compare_perf_command(
    current: Annotated[Path, typer.Argument(help="New build: bundle, profile_baseline.csv, trace or bench JSON.")],
    baseline: Annotated[Path, typer.Argument(help="What to compare against: a file of the same kind.")],
    measured: Annotated[Path | None, typer.Option(help="Device's trace of the new build (CSV or JSON).")] = None,
    baseline_measured: Annotated[Path | None, typer.Option(help="Device's trace of the baseline.")] = None,
    measures: Annotated[str | None, typer.Option(help="What the traces measured: TARGET/PROGRAM/PROFILE.")] = None,
    latency_percent: Annotated[float, typer.Option(min=0, help="Growth allowed of a frame's P99.")] = 5.0,
    ddr_percent: Annotated[float, typer.Option(min=0, help="Growth allowed of DDR bytes a frame.")] = 10.0,
    sram_bytes: Annotated[int | None, typer.Option(min=0, help="SRAM budget. Default: the target's.")] = None,
    per_kernel: Annotated[bool, typer.Option("--per-kernel", help="Every kernel keeps the limits too.")] = False,
    allow_new: Annotated[bool, typer.Option("--allow-new", help="What has no baseline passes.")] = False,
    as_json: Json = False,
) -> None:
    """Compare two builds. Exit 1 on a regression, naming the kernel that did it.

    Latency is the 99th percentile of the measured frames where traces are given. An estimate has no spread, so
    estimates are compared themselves: noise that multiplies the time of a frame moves both percentiles alike.

    Example: edgeloop compare-perf new.elb production.elb

    Example: edgeloop compare-perf new.elb production.elb --measured new.csv --baseline-measured production.csv
    --measures npu-4t/model/360x640
    """
    with reported():
        limits = PerfLimits(latency_percent, ddr_percent, sram_bytes, per_kernel, allow_new)
        if (measured is None) != (baseline_measured is None):
            remedy = "give --measured and --baseline-measured together"
            raise CompileError("compare-perf", "a measured time cannot be judged by an estimate", remedy)
        comparison = judge(_tables(current, measured, measures), _tables(baseline, baseline_measured, measures), limits)
        if as_json:
            print_json({"ok": comparison.ok, **asdict(comparison)})
        else:
            render_comparison(console(), comparison)
    if not comparison.ok:
        raise typer.Exit(1)


def _programs(file: Path) -> Iterator[tuple[str, Program]]:
    if file.suffix == ".npu":
        yield file.name, expanded(Program.open(file.read_bytes()))
        return
    bundle = Bundle.open(file)
    for name in bundle.names:
        if name.endswith(".npu"):
            target, _, program = name.removesuffix(".npu").partition("/")
            yield name, expanded(bundle.program(target, program))


def _tables(file: Path, measured: Path | None, measures: str | None) -> Tables:
    data = _baseline(file) if file.suffix == ".elb" else file.read_bytes()
    tables = read(str(file), data)
    if measured is None:
        return tables
    return with_trace(tables, read_trace(str(measured), measured.read_bytes()), measures)


def _baseline(file: Path) -> bytes:
    bundle = Bundle.open(file)
    tables = [bytes(bundle.piece(name)) for name in bundle.names if name.endswith("/profile_baseline.csv")]
    if not tables:
        raise CompileError(str(file), "the bundle has no profile_baseline.csv", "compile it again")
    return tables[0] + b"".join(table.split(b"\n", 1)[1] for table in tables[1:])


def _print_findings(findings: dict[str, list[Finding]]) -> None:
    out = console()
    for name, found in findings.items():
        state = f"[red]{len(found)} findings[/red]" if found else "[green]verified[/green]"
        out.print(f"{name}: {state}")
        for finding in found:
            out.print(f"  {finding}", soft_wrap=True)
