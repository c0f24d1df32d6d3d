"""Evidence as documents: what was measured, on what, with what, and the raw logs, each with its hash.

The articles ask for four things: list of test devices, hashes of the test sets, versions of the test scripts, raw
logs. None may be left out.
"""

from __future__ import annotations

import hashlib
import json
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from contracts.wire.base import Answer, Message
from services.claims.limits import EVIDENCE

FORMAT = "edgeloop-claims-evidence-1"

EvidenceId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]{0,63}$")]
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$")]
Line = Annotated[str, StringConstraints(min_length=1, max_length=400, pattern=r"^[^\r\n\x00]*$")]
Md5 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Many = Field(min_length=1, max_length=EVIDENCE.entries)


class TestSet(Message):
    """A test set by its hashes (MD5, which the articles name, and SHA-256, which still holds); never the video."""

    name: Line
    bytes: Annotated[int, Field(ge=0)]
    md5: Md5
    sha256: Sha256


class Script(Message):
    """A program that measured, and its version (a tag, a commit or a hash)."""

    name: Line
    version: Line


class Log(Message):
    """A raw log, kept whole in the object store."""

    name: FileName
    bytes: Annotated[int, Field(ge=1, le=EVIDENCE.log_bytes)]
    sha256: Sha256


class Value(Message):
    """A number that this evidence proves, with its unit and the condition of the test."""

    value: Annotated[Decimal, Field(max_digits=18, decimal_places=9)]
    unit: Line
    condition: Line


class Manifest(Message):
    """One piece of evidence."""

    format: Literal["edgeloop-claims-evidence-1"] = "edgeloop-claims-evidence-1"
    id: EvidenceId
    summary: Line
    measured_on: date
    devices: Annotated[tuple[Line, ...], Many]
    test_sets: Annotated[tuple[TestSet, ...], Many]
    scripts: Annotated[tuple[Script, ...], Many]
    logs: Annotated[tuple[Log, ...], Field(min_length=1, max_length=EVIDENCE.logs)]
    values: Annotated[tuple[Value, ...], Field(max_length=EVIDENCE.entries)] = ()

    def canonical(self) -> bytes:
        """The bytes that are hashed: JSON with sorted keys and no blanks."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":")).encode()

    def digest(self) -> str:
        """SHA-256 of the canonical form, hexadecimal."""
        return hashlib.sha256(self.canonical()).hexdigest()


class EvidenceRecord(Answer):
    """Evidence as it was filed. It cannot be changed, nor removed before `keep_until`."""

    digest: str
    filed_by: str
    filed_at: datetime
    keep_until: datetime
    manifest: Manifest


class EvidenceCheck(Answer):
    """Whether what is kept is still what was filed; `faults` say what is not."""

    id: str
    ok: bool
    faults: tuple[str, ...] = ()
