"""`kernel-trace`: what the NPU does in a few frames of a bundle or a program, as a file for ui.perfetto.dev.

Exit status: 0 written, 2 the file, the profile or an option is wrong; nothing is written then.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from contracts.bundle import Bundle, BundleError
from contracts.npu.program import Program, ProgramError
from contracts.npu.spec import UnknownTarget
from edge_agent.runtime.npu.climate import ClimateModel
from edge_agent.runtime.npu.device import DEFAULT_ARRAY_MODEL
from edge_agent.runtime.npu.errors import NpuError
from edge_agent.runtime.npu.kernel_trace import TraceTooLong
from edge_agent.runtime.npu.tracing import TraceOptions, trace_program

EXIT_USAGE = 2
_EXPECTED = (BundleError, ProgramError, NpuError, TraceTooLong, KeyError, OSError)


def kernel_trace(
    source: Annotated[Path, typer.Argument(help="Bundle (*.elb) or program (*.npu).")],
    out: Annotated[Path, typer.Argument(help="Where the trace is written (JSON).")],
    device_class: Annotated[str, typer.Option(help="Target of the bundle's program: npu-4t or npu-2t.")] = "npu-4t",
    program: Annotated[str, typer.Option(help="Program of the bundle: model, model-little or quality.")] = "model",
    profile: Annotated[str | None, typer.Option(help="Profile, as 360x640; the first one by default.")] = None,
    frames: Annotated[int, typer.Option(min=1, max=100, help="How many frames.")] = 2,
    fps: Annotated[float, typer.Option(min=0.1, max=1000, help="Frames a second.")] = 30.0,
    array_model: Annotated[str, typer.Option(help="Array model: ideal or u85-like.")] = DEFAULT_ARRAY_MODEL,
    ambient: Annotated[float | None, typer.Option(help="Degrees around the device; with it heat is modelled.")] = None,
) -> None:
    """Write the kernel trace of a few frames: queues, launches, waits, SRAM, heat. Opens in ui.perfetto.dev."""
    climate = None if ambient is None else ClimateModel(ambient_c=ambient)
    options = TraceOptions(profile or 0, frames, fps, array_model, climate)
    try:
        text = trace_program(_program(source, device_class, program), options)
        _write(out, text)
    except _EXPECTED as error:
        plain = isinstance(error, KeyError) and not isinstance(error, UnknownTarget)
        reason = error.args[0] if plain and error.args else error
        typer.echo(f"kernel-trace: {reason}", err=True)
        raise typer.Exit(EXIT_USAGE) from error
    typer.echo(f"{out}: {frames} frames, {len(text) / 1e6:.1f} MB; open it in ui.perfetto.dev or chrome://tracing")


def _write(out: Path, text: str) -> None:
    unfinished = out.with_name(f".{out.name}.part")
    try:
        unfinished.write_text(text)
        unfinished.replace(out)
    finally:
        unfinished.unlink(missing_ok=True)


def _program(source: Path, device_class: str, name: str) -> Program:
    if source.suffix == ".npu":
        return Program.open(source.read_bytes())
    return Bundle.open(source).program(device_class, name)
