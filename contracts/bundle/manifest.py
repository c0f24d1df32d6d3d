"""``manifest.json``: what the bundle holds, and the build that all pieces must come from.

Invariants: canonical JSON (sorted keys, no spaces), a length and a SHA-384 for each piece but the manifest
itself."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from contracts.bundle.errors import ForeignBundle
from contracts.bundle.limits import LIMITS

FORMAT = "edgeloop-bundle-1"
MANIFEST = "manifest.json"
_NAME = re.compile(r"^[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)?$")
_HEX96 = re.compile(r"^[0-9a-f]{96}$")
_HEX32 = re.compile(r"^[0-9a-f]{32}$")


@dataclass(frozen=True)
class PieceRecord:
    """Length in bytes and SHA-384 in hexadecimal."""

    length: int
    sha384: str

    @staticmethod
    def of(data: bytes | memoryview) -> PieceRecord:
        """The record of these bytes."""
        return PieceRecord(length=len(data), sha384=hashlib.sha384(data).hexdigest())


@dataclass(frozen=True)
class Manifest:
    """Identity of the bundle. ``build_id`` is 16 bytes in hexadecimal."""

    build_id: str
    release_version: str
    security_epoch: int
    pieces: dict[str, PieceRecord]

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        body = {
            "format": FORMAT,
            "build_id": self.build_id,
            "release_version": self.release_version,
            "security_epoch": self.security_epoch,
            "pieces": {name: asdict(record) for name, record in self.pieces.items()},
        }
        return json.dumps(body, separators=(",", ":"), sort_keys=True).encode()

    @staticmethod
    def parse(data: bytes) -> Manifest:
        """Read and check; raises :class:`ForeignBundle`."""
        try:
            raw = json.loads(data)
            if raw["format"] != FORMAT:
                raise ForeignBundle(MANIFEST, f"format {raw['format']!r} is not {FORMAT!r}", "update this program")
            pieces = {name: PieceRecord(int(r["length"]), str(r["sha384"])) for name, r in raw["pieces"].items()}
            manifest = Manifest(str(raw["build_id"]), str(raw["release_version"]), int(raw["security_epoch"]), pieces)
        except ForeignBundle:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ForeignBundle(MANIFEST, f"not readable ({error!r})", "fetch the bundle again") from error
        manifest.check()
        return manifest

    def check(self) -> None:
        """Names, hashes and counts within their form; raises :class:`ForeignBundle`."""
        problem = _first_problem(self.build_id, self.security_epoch, self.pieces)
        if problem:
            raise ForeignBundle(MANIFEST, problem, "build the bundle again")


def _first_problem(build_id: str, security_epoch: int, pieces: Mapping[str, PieceRecord]) -> str | None:
    if not _HEX32.match(build_id):
        return f"build_id {build_id!r} is not 16 bytes in hexadecimal"
    if security_epoch < 0:
        return f"security_epoch {security_epoch} is negative"
    if len(pieces) > LIMITS.pieces:
        return f"{len(pieces)} pieces, at most {LIMITS.pieces} are allowed"
    for name, record in pieces.items():
        if len(name) > LIMITS.name_characters or not _NAME.match(name) or name == MANIFEST:
            return f"piece name {name!r} is not allowed"
        if record.length < 0 or not _HEX96.match(record.sha384):
            return f"piece {name}: length or SHA-384 malformed"
    return None
