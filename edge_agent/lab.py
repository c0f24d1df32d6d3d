"""`edgeloop agent lab`: one emulated device on standard input and output, for services and flows.

Speaks the lab protocol (contracts/lab, docs/reference/lab.md). Invariants: a refused request changes nothing
and the process goes on; only a malformed message or the end of input ends it; nothing but answers reaches
standard output; a thousand loads keep no more than the last one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from contracts.lab.errors import LabProtocolError
from contracts.lab.messages import Array, decode, encode
from contracts.npu.spec import UnknownTarget, load_spec
from edge_agent.runtime.lab_device import LabDevice
from edge_agent.runtime.npu import Faults, NpuDevice
from edge_agent.runtime.npu.engines.select import EngineUnknown, engine_named
from edge_agent.runtime.npu.faults import FaultsInvalid

EXIT_USAGE = 2
EXIT_PROTOCOL = 3


def lab(
    device_class: Annotated[str, typer.Option(help="Target to emulate.")] = "npu-4t",
    seed: Annotated[int, typer.Option(help="Seed of jitter and faults.", min=0)] = 0,
    engine: Annotated[str, typer.Option(help="auto, ort, ort-u8u8 or numpy.")] = "auto",
    array_model: Annotated[str, typer.Option(help="ideal or u85-like.")] = "u85-like",
    jitter: Annotated[float, typer.Option(help="Relative spread of simulated time.", min=0, max=0.5)] = 0.01,
    faults: Annotated[str, typer.Option(help="Faults as JSON, or a JSON file.")] = "{}",
) -> None:
    """Serve one emulated device on standard input and output until the input ends."""
    try:
        given = Faults.from_json(faults if faults.lstrip().startswith("{") else Path(faults).read_text())
        device = NpuDevice(
            load_spec(device_class),
            faults=given,
            seed=seed,
            engine=engine_named(engine),
            array_model=array_model,
            jitter=jitter,
        )
    except (UnknownTarget, EngineUnknown, FaultsInvalid, KeyError, OSError) as error:
        typer.echo(f"edgeloop agent lab: {error}", err=True)
        raise typer.Exit(EXIT_USAGE) from error
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a stray print must not break the protocol
    raise typer.Exit(serve(LabDevice(device), sys.stdin.buffer, answers))


def serve(device: LabDevice, requests: BinaryIO, answers: BinaryIO) -> int:
    """Answer requests until the input ends or `shutdown`; returns the exit status."""
    while True:
        try:
            request = decode(lambda size: _read(requests, size))
        except EOFError:
            return 0
        except LabProtocolError as error:
            _write(answers, {"ok": False, "error": {"kind": "LabProtocolError", "message": str(error)}})
            print(f"edgeloop agent lab: {error}; start it again with a matching client", file=sys.stderr)
            return EXIT_PROTOCOL
        header, arrays = device.answer(request)
        try:
            _write(answers, header, arrays)
        except LabProtocolError as error:
            _write(answers, {"ok": False, "error": {"kind": "LabProtocolError", "message": str(error)}})
        except BrokenPipeError:
            return 0
        if request.header.get("op") == "shutdown":
            return 0


def _read(stream: BinaryIO, size: int) -> memoryview:
    data = bytearray(size)
    place = memoryview(data)
    while place:
        count = stream.readinto(place)  # type: ignore[attr-defined]  # BinaryIO lacks it, every binary stream has it
        if not count:
            raise EOFError
        place = place[count:]
    return memoryview(data)


def _write(stream: BinaryIO, header: Mapping[str, object], arrays: Mapping[str, Array] | None = None) -> None:
    parts = list(encode(header, arrays))  # all sizes are checked before the first byte leaves
    for part in parts:
        stream.write(part)
    stream.flush()


if __name__ == "__main__":
    typer.run(lab)
