"""Results of stages that take minutes, kept under `build/bench/qat`, so that a stopped bench goes on.

A stage's folder is named by what it is, its seed and a hash of its settings and of the code that makes it; comments,
docstrings and layout of that code do not count.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.keeping.code_hash import code_hash

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "bench" / "qat"
Json = dict[str, Any]  # plain values


@dataclass(frozen=True)
class Stage:
    """What a result depends on: name, seed, settings, and files or folders of code below the checkout."""

    name: str
    seed: int
    settings: Json
    code: tuple[str, ...]

    def folder(self, root: Path = FOLDER) -> Path:
        """Where its files lie."""
        text = json.dumps({"settings": self.settings, "code": code_hash(self.code)}, sort_keys=True)
        return root / f"{self.name}-{self.seed}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def done(stage: Stage, make: Callable[[Path], Json], root: Path = FOLDER) -> Json:
    """The stage's facts, made now or before; `make` is given the stage's folder and may leave files in it."""
    folder = stage.folder(root)
    facts = folder / "done.json"
    if facts.is_file():
        kept: Json = json.loads(facts.read_text())
        return kept
    folder.mkdir(parents=True, exist_ok=True)
    made = make(folder)
    temporary = facts.with_suffix(".part")
    temporary.write_text(json.dumps(made, indent=1, sort_keys=True))
    temporary.replace(facts)
    return made
