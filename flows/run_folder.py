"""The artefacts of one flow run on disk: a step that has left its result is not done twice.

Each artefact is written to a temporary name, flushed, fsynced and renamed, so a killed run leaves whole results or
none. The folder is named after what the run was asked for, so that a repeated request continues the same run.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]


class RunFolder:
    """Artefacts by name below `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)

    def has(self, name: str) -> bool:
        """Whether the artefact is there in full."""
        return (self.path / name).exists()

    def write(self, name: str, data: bytes) -> Path:
        """Store bytes under `name` and return where."""
        final = self.path / name
        temporary = final.with_name(f".{name}.part")
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(final)
        return final

    def read(self, name: str) -> bytes:
        """Bytes of an artefact."""
        return (self.path / name).read_bytes()

    def write_json(self, name: str, value: Json) -> Path:
        """Store a JSON object, keys sorted."""
        return self.write(name, json.dumps(value, indent=1, sort_keys=True).encode())

    def read_json(self, name: str) -> Json:
        """A JSON object."""
        value: Json = json.loads(self.read(name))
        return value

    def step(self, name: str, make: Callable[[], Json]) -> Json:
        """Run a step once: its JSON result is `<name>.json`; its wall time is noted in `steps.json`."""
        artefact = f"{name}.json"
        if self.has(artefact):
            return self.read_json(artefact)
        began = time.time()
        self._note(name, {"began": began})
        value = make()
        self.write_json(artefact, value)
        self._note(name, {"began": began, "ended": time.time(), "seconds": round(time.time() - began, 3)})
        return value

    def steps(self) -> Json:
        """Begin, end and seconds of each step so far."""
        return self.read_json("steps.json") if self.has("steps.json") else {}

    def _note(self, name: str, row: Json) -> None:
        self.write_json("steps.json", self.steps() | {name: row})
