"""Evidence: one JSON document that lets a stranger check a verdict: inputs' hashes, versions, raw rows, rules, result.

The document is canonical (sorted keys, no spaces) and named by its own hash; it is written once and never changed.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

from contracts.wire import GateVerdict
from services.builds.limits import GATE
from services.builds.measurements import Candidate

FORMAT = "edgeloop-gate-evidence-1"
PACKAGES = ("edgeloop", "numpy", "onnx", "onnxruntime")


@dataclass(frozen=True)
class Subject:
    """What was judged: ids, hashes of everything that went in, and what came out."""

    build_id: str
    name: str
    release_version: str
    bundle_sha384: str
    bundle_bytes: int
    inputs: Mapping[str, Mapping[str, Any]]  # Any: {key, sha256, length} of each part
    request: Mapping[str, Any]  # Any: JSON of BuildRequest


def document(
    subject: Subject,
    sets: Sequence[Mapping[str, Any]],  # Any: id, name, condition, frames and sha256 of each set
    labs: Mapping[str, Any],  # Any: what each lab process said of itself
    candidate: Candidate,
    production: Candidate | None,
    verdict: GateVerdict,
    judged_at: float,
) -> dict[str, Any]:  # Any: JSON
    """The evidence of one verdict."""
    return {
        "format": FORMAT,
        "build": asdict(subject),
        "versions": versions(),
        "evaluation_sets": [dict(entry) for entry in sets],
        "labs": dict(labs),
        "limits": asdict(GATE),
        "candidate": _rows(candidate),
        "production": None if production is None else {"build": production.build_id, "rows": _rows(production)},
        "verdict": verdict.model_dump(mode="json"),
        "judged_at": judged_at,
    }


def to_bytes(evidence: Mapping[str, Any]) -> bytes:  # Any: JSON
    """Canonical JSON."""
    return json.dumps(evidence, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def key_of(data: bytes) -> str:
    """Where the object store keeps this evidence."""
    return f"builds/evidence/{hashlib.sha256(data).hexdigest()}.json"


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Versions of everything that computed."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "source tree"
    return found


def _rows(candidate: Candidate) -> list[dict[str, Any]]:  # Any: JSON
    return [row.document() for row in candidate.measurements]
