"""The artefacts of one flow run on disk: a step that has left its result is not done twice.

Each artefact is written to a temporary name, flushed, fsynced and renamed, so a killed run leaves whole results or
none. The folder is named after what the run was asked for, so that a repeated request continues the same run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flows.errors import FlowError
from flows.storage import write_whole

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
        """Store bytes under `name` and return where. Raises StorageError when the disk is full."""
        final = self.path / name
        write_whole(final, lambda file: file.write(data), final.with_name(f".{name}.part"))
        return final

    def read(self, name: str) -> bytes:
        """Bytes of an artefact."""
        return (self.path / name).read_bytes()

    def write_json(self, name: str, value: Json) -> Path:
        """Store a JSON object, keys sorted."""
        return self.write(name, json.dumps(value, indent=1, sort_keys=True).encode())

    def read_json(self, name: str) -> Json:
        """A JSON object. Raises FlowError when the file holds none."""
        try:
            value = json.loads(self.read(name))
        except ValueError as error:
            raise FlowError(f"{name} of run {self.path.name} is damaged ({error}); remove it to do it again") from error
        if not isinstance(value, dict):
            raise FlowError(f"{name} of run {self.path.name} is no JSON object; remove it to do it again")
        return value

    def step(self, name: str, make: Callable[[], Json]) -> Json:
        """Run a step once: its JSON result is `<name>.json`; its wall time and attempts are noted in `steps.json`.

        The result is what was stored, also the first time, so that a resumed run goes on from the same values.
        """
        artefact = f"{name}.json"
        if not self.has(artefact):
            began, attempts = time.time(), int(self.steps().get(name, {}).get("attempts", 0)) + 1
            self._note(name, {"began": began, "attempts": attempts})
            self.write_json(artefact, make())
            ended = time.time()
            seconds = round(ended - began, 3)
            self._note(name, {"began": began, "ended": ended, "seconds": seconds, "attempts": attempts})
        return self.read_json(artefact)

    def steps(self) -> Json:
        """Begin, end, seconds and attempts of each step so far."""
        return self.read_json("steps.json") if self.has("steps.json") else {}

    def _note(self, name: str, row: Json) -> None:
        self.write_json("steps.json", self.steps() | {name: row})
