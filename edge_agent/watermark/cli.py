"""`edgeloop watermark`: read which devices a program came from, or see what a device would hold."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from contracts.bundle import Bundle, BundleError
from contracts.npu.program import Program, ProgramError, ProgramWriter
from edge_agent.runtime.npu.coded import decoded
from edge_agent.watermark import Mark, Reading, WatermarkError, mark_program, read_program
from edge_agent.watermark.code import read_key
from edge_agent.watermark.marker import HOUR_S

EXIT_NONE, EXIT_USAGE = 1, 2
app = typer.Typer(help="Marks in the weights of installed programs.", no_args_is_help=True)
KeyFile = Annotated[Path, typer.Option("--key-file", help="File with the key in hexadecimal, 16 bytes or more.")]
DeviceClass = Annotated[str, typer.Option("--device-class", help="npu-4t or npu-2t; for bundles.")]


@app.command("read", epilog="Example: edgeloop watermark read leaked.npu --key-file watermark.key")
def read_command(
    file: Annotated[Path, typer.Argument(help="A program (*.npu) or a bundle (*.elb).")],
    key_file: KeyFile,
    device_class: DeviceClass = "npu-4t",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tell batch and hour of installation. Leaves with 1 when there is no mark under this key."""
    program, key = _program(file, device_class), _key(key_file)
    try:
        found = read_program(program, key)
    except WatermarkError as error:
        typer.echo(f"edgeloop watermark: {file}: {error}", err=True)
        raise typer.Exit(EXIT_NONE) from error
    facts = _facts(found)
    typer.echo(json.dumps(facts) if as_json else "\n".join(f"{name}: {value}" for name, value in facts.items()))


@app.command("put", epilog="Example: edgeloop watermark put base.elb out.npu --key-file watermark.key --batch 12")
def put_command(
    file: Annotated[Path, typer.Argument(help="A program (*.npu) or a bundle (*.elb).")],
    out: Annotated[Path, typer.Argument(help="Where the program goes.")],
    key_file: KeyFile,
    batch: Annotated[int, typer.Option(help="Batch of devices.", min=0)],
    hour: Annotated[int, typer.Option(help="Hours since 1970; 0 is now.", min=0)] = 0,
    device_class: DeviceClass = "npu-4t",
) -> None:
    """Write the program that a device of this batch holds in memory: for labs, and to try the reading."""
    program, key = _program(file, device_class), _key(key_file)
    try:
        marked = mark_program(program, Mark(batch, hour or int(time.time()) // HOUR_S), key)
        out.write_bytes(_file_of(marked))
    except (WatermarkError, OSError) as error:
        typer.echo(f"edgeloop watermark: {error}", err=True)
        raise typer.Exit(EXIT_USAGE) from error
    changed = int((marked.constants != program.constants).sum())
    typer.echo(f"{out}: {changed} of {len(program.constants)} bytes of constants changed by one step")


def _file_of(program: Program) -> bytes:
    writer = ProgramWriter(program.target, program.build_id)
    for index, profile in enumerate(program.profiles):
        writer.add_profile(profile, program.commands(index))
    return writer.to_bytes(program.names, program.constants.tobytes(), program.quant.tobytes())


def _facts(found: Reading) -> dict[str, object]:
    installed = datetime.fromtimestamp(found.mark.hour * HOUR_S, UTC).isoformat()
    return {"batch": found.mark.batch, "installed": installed, "agreement": round(found.agreement, 4)}


def _program(file: Path, device_class: str) -> Program:
    try:
        if file.suffix == ".elb":
            return decoded(Bundle.open(file).program(device_class, "model"))
        return decoded(Program.open(file.read_bytes()))
    except (BundleError, ProgramError, OSError) as error:
        typer.echo(f"edgeloop watermark: {file}: {error}", err=True)
        raise typer.Exit(EXIT_USAGE) from error


def _key(path: Path) -> bytes:
    try:
        return read_key(path)
    except WatermarkError as error:
        typer.echo(f"edgeloop watermark: {error}", err=True)
        raise typer.Exit(EXIT_USAGE) from error
