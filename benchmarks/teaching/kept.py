"""Where a stage keeps what it made: `build/bench/learning/STAGE/KEY/seedN`, so that the bench goes on after a stop.

The key is a hash of the stage's configuration and of the code that decides its result (`benchmarks/keeping`). Another
configuration or other training code never finds an old result.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.keeping.code_hash import code_hash

CHECKOUT = Path(__file__).resolve().parents[2]
ROOT = CHECKOUT / "build" / "bench" / "learning"

Json = dict[str, Any]  # Any: JSON


@dataclass(frozen=True)
class Kept:
    """One stage for one seed: a folder, and the result that is written last."""

    folder: Path

    @property
    def key(self) -> str:
        """The hash that the stage is kept under."""
        return self.folder.parent.name

    @property
    def result(self) -> Json | None:
        """What the stage found, None while it is not done."""
        path = self.folder / "result.json"
        return dict(json.loads(path.read_text())) if path.is_file() else None

    def finish(self, result: Json) -> Json:
        """Store the result."""
        temporary = self.folder / "result.part"
        temporary.write_text(json.dumps(result, indent=1) + "\n")
        temporary.replace(self.folder / "result.json")
        return result


def sources(*folders: str) -> tuple[str, ...]:
    """Every Python file below folders of the checkout, and single files by name."""
    found = []
    for name in folders:
        path = CHECKOUT / name
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        found += [file.relative_to(CHECKOUT).as_posix() for file in files]
    return tuple(found)


def kept(stage: str, seed: int, configuration: Mapping[str, object], sources: Sequence[str]) -> Kept:
    """The place of a stage; `sources` are files of the checkout, by path."""
    digest = hashlib.sha256(json.dumps(configuration, sort_keys=True, default=str).encode())
    digest.update(code_hash(sorted(sources), CHECKOUT).encode())
    folder = ROOT / stage / digest.hexdigest()[:12] / f"seed{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    return Kept(folder)
