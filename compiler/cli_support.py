"""What the commands share: one line for an error, whole files or none, arguments in words, progress."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from compiler.errors import CompileError
from contracts.bundle import BundleError
from contracts.npu import ProgramError, UnknownTarget

_ERRORS = (CompileError, BundleError, ProgramError, UnknownTarget, OSError)
_PROFILE = re.compile(r"^(\d{1,5})x(\d{1,5})$")


def check_folder(file: Path) -> None:
    """Raise CompileError unless the folder of ``file`` exists."""
    if not file.parent.is_dir():
        raise CompileError(str(file.parent), "this folder does not exist", "create it or name another file")


def write_whole(path: Path, text: str) -> None:
    """All of the text or, after a failure, the file as it was."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def frame_size(text: str) -> tuple[int, int]:
    """Height and width from HEIGHTxWIDTH; raises CompileError."""
    match = _PROFILE.match(text)
    if not match:
        raise CompileError("--profile", f"{text!r} is not HEIGHTxWIDTH", "write for example 360x640")
    return int(match[1]), int(match[2])


def widths_of(texts: list[str]) -> dict[str, bytes]:
    """Narrower variants from NAME=FILE; raises CompileError or OSError."""
    found: dict[str, bytes] = {}
    for text in texts:
        name, separator, file = text.partition("=")
        if not separator or name in found:
            reason = "it is given twice" if name in found else "it is not NAME=FILE"
            raise CompileError("--width", f"{text!r}: {reason}", "write for example 0.5=vsr-half.onnx")
        found[name] = Path(file).read_bytes()
    return found


def json_object(path: Path) -> dict[str, object]:
    """The JSON object in a file; raises CompileError or OSError."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CompileError(str(path), f"not JSON ({error})", "give a JSON object") from error
    if not isinstance(value, dict):
        raise CompileError(str(path), "not a JSON object", "give a JSON object")
    return value


def console() -> Console:
    """Standard output; of a fixed width where it is no terminal."""
    return Console(width=None if sys.stdout.isatty() else 120)


def print_json(value: object) -> None:
    """One JSON value and nothing else."""
    typer.echo(json.dumps(value, indent=2))


@contextmanager
def sensible(file: Path) -> Iterator[None]:
    """Hashes say that a file is whole, not that a compiler made it: nonsense inside is one error too."""
    try:
        yield
    except _ERRORS:
        raise
    except (ValueError, LookupError, TypeError, ArithmeticError, AttributeError, MemoryError) as error:
        reason = f"its streams or pieces contradict themselves ({error!r})"
        remedy = "ask edgeloop verify what is wrong, and compile the model again"
        raise CompileError(str(file), reason, remedy) from error


@contextmanager
def reported() -> Iterator[None]:
    """Errors that a caller can mend become one line and exit status 2."""
    try:
        yield
    except _ERRORS as error:
        _fail(error)


def _fail(error: BaseException) -> NoReturn:
    typer.echo(f"error: {error}", err=True)
    raise typer.Exit(2) from error


@contextmanager
def shown_progress(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """What is being done, on a terminal; silent where ``quiet`` or redirected."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading", total=None)
        yield lambda text: progress.update(task, description=text)
