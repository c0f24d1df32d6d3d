"""`edgeloop diagnostics`: make the key pair that devices encrypt diagnostics to, and open what they made.

Exit status: 0 done, 1 the package or the key cannot be read, 2 wrong use.
"""

from __future__ import annotations

import base64
import json
import os
import stat
from pathlib import Path
from typing import Annotated, Any

import typer
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from rich.console import Console
from rich.table import Table

from contracts.diagnostics import MOST_FILE, DiagnosticsError, Package, open_package
from services.kit.operator_cli import EXIT_REFUSED, JsonOption, fail

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    help="Encrypted diagnostic packages of devices.",
)


@app.command("keygen", epilog="Example: edgeloop diagnostics keygen --out diagnostics.key > diagnostics.pub")
def keygen(
    out: Annotated[Path, typer.Option("--out", help="Write the private key here (mode 0600); it must not exist.")],
) -> None:
    """Make a key pair: the private key stays with the security people, the printed public one goes to devices."""
    private = X25519PrivateKey.generate()
    try:
        descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        fail(f"{out}: {error.strerror}; give a new file", EXIT_REFUSED)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(base64.b64encode(private.private_bytes_raw()).decode() + "\n")
    typer.echo(base64.b64encode(private.public_key().public_bytes_raw()).decode())


@app.command("open", epilog="Example: edgeloop diagnostics open device1.elg --key diagnostics.key --trace trace.json")
def open_file(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A package (*.elg).")],
    key: Annotated[Path, typer.Option("--key", exists=True, dir_okay=False, help="The private diagnostics key.")],
    trace: Annotated[Path | None, typer.Option("--trace", help="Write the trace here, for Perfetto.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a device told about itself."""
    try:
        found = open_package(_bytes(file), _private(key))
    except DiagnosticsError as error:
        fail(f"{file}: {error}; check the file and the key", EXIT_REFUSED)
    if trace is not None:
        if not found.body.get("trace"):
            fail(f"{file} holds no trace: the agent did not run when it was made", EXIT_REFUSED)
        trace.write_text(json.dumps(found.body["trace"]))
    if as_json:
        typer.echo(json.dumps({**found.body, "signed_by": found.signed_by}, indent=2))
    else:
        Console().print(_table(found))


def _bytes(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.read(MOST_FILE + 1)


def _private(path: Path) -> X25519PrivateKey:
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        fail(f"{path} can be read by others; chmod 600 it", EXIT_REFUSED)
    try:
        return X25519PrivateKey.from_private_bytes(base64.b64decode(path.read_text("ascii").strip(), validate=True))
    except ValueError as error:
        fail(f"{path} is not a private diagnostics key ({error})", EXIT_REFUSED)


def _table(found: Package) -> Table:
    table = Table(show_header=False, box=None)
    table.add_row("signed by", found.signed_by or "nobody")
    for name, value in found.body.items():
        table.add_row(name, _short(name, value))
    return table


def _short(name: str, value: Any) -> str:  # Any: JSON
    if name == "trace" and isinstance(value, dict):
        return f"{len(value.get('traceEvents', []))} events; --trace FILE writes them"
    text = json.dumps(value) if isinstance(value, dict | list) else str(value)
    return text if len(text) < 600 else f"{text[:600]}... (--json shows all)"
