"""Makes a manifest from what lies on this machine: test sets are hashed where they are, logs are read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path

from services.claims.limits import EVIDENCE
from services.claims.schemas import Log, Manifest, Script, TestSet, Value


class CollectError(ValueError):
    """What was given does not make evidence."""


def manifest(
    evidence_id: str,
    summary: str,
    measured_on: date,
    devices: Sequence[str],
    test_sets: Sequence[Path],
    scripts: Sequence[str],
    logs: Sequence[Path],
    values: Sequence[str],
) -> Manifest:
    """The manifest; raises CollectError, OSError, or pydantic's ValidationError."""
    return Manifest(
        id=evidence_id,
        summary=summary,
        measured_on=measured_on,
        devices=tuple(devices),
        test_sets=tuple(test_set(path) for path in test_sets),
        scripts=tuple(script(text) for text in scripts),
        logs=tuple(log(path) for path in logs),
        values=tuple(value(text) for text in values),
    )


def test_set(path: Path) -> TestSet:
    """Name, length and hashes of a file; it is read once, in blocks."""
    md5, sha256, length = hashlib.md5(usedforsecurity=False), hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(EVIDENCE.block_bytes):
            md5.update(block)
            sha256.update(block)
            length += len(block)
    return TestSet(name=path.name, bytes=length, md5=md5.hexdigest(), sha256=sha256.hexdigest())


def script(text: str) -> Script:
    """`NAME=VERSION`, or the path of a script, whose version is then its own hash."""
    name, equals, version = text.partition("=")
    if equals:
        return Script(name=name, version=version)
    path = Path(text)
    if not path.is_file():
        raise CollectError(f"--script {text!r} is neither NAME=VERSION nor a file")
    return Script(name=path.name, version=f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}")


def log(path: Path) -> Log:
    """Name, length and hash of a raw log."""
    size = path.stat().st_size
    if not 0 < size <= EVIDENCE.log_bytes:
        raise CollectError(f"log {path} has {size:,} bytes; 1 to {EVIDENCE.log_bytes:,} can be kept")
    return Log(name=path.name, bytes=size, sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def value(text: str) -> Value:
    """`25 ms @ condition of the test`."""
    match = re.fullmatch(r"\s*([-+]?[0-9.]+)\s*(\S[^@]*?)\s*@\s*(\S.*?)\s*", text)
    if match is None:
        raise CollectError(f"--value {text!r} does not read as '25 ms @ where and how it was measured'")
    try:
        return Value(value=Decimal(match[1]), unit=match[2], condition=match[3])
    except InvalidOperation as error:
        raise CollectError(f"--value {text!r}: {match[1]} is not a number") from error
