"""A job, and the order for it that a worker reads: everything that decides its result, and the name that follows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path

from flows.run_folder import Json
from flows.spread.digests import digest_of


@dataclass(frozen=True)
class Job:
    """One call that depends on nothing but what is told here.

    `name` is for people. `call` is "module:function"; the function takes a `Work` and returns JSON. `files` are what it
    reads, by role. `given` are objects that it takes instead of files, where the disk had no room for those; such a job
    can run in this process only, and its result is not kept.
    """

    name: str
    call: str
    settings: Json
    files: Mapping[str, Path] = field(default_factory=dict)
    seed: int = 0
    given: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Order:
    """A job as a worker gets it. `files` are path and SHA-256 by role, `folder` is where results lie."""

    name: str
    call: str
    settings: Json
    files: Mapping[str, tuple[str, str]]
    seed: int
    version: str
    folder: str

    @property
    def stem(self) -> str:
        """Name of the result: the function, and a hash of all that decides what it returns; not where files lie."""
        decides = {
            "call": self.call,
            "settings": self.settings,
            "files": {role: digest for role, (_, digest) in self.files.items()},
            "seed": self.seed,
            "version": self.version,
        }
        digest = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()
        return f"{self.call.rpartition(':')[2]}-{digest[:24]}"

    @property
    def result(self) -> Path:
        """File of the result."""
        return Path(self.folder) / f"{self.stem}.json"

    @property
    def share(self) -> Path:
        """File that tells how far the job is."""
        return Path(self.folder) / f".{self.stem}.share"

    def to_json(self) -> str:
        """As text, for a worker."""
        return json.dumps(vars(self))

    @staticmethod
    def from_json(text: str) -> Order:
        """Inverse of `to_json`."""
        raw = json.loads(text)
        return Order(**{**raw, "files": {role: (path, digest) for role, (path, digest) in raw["files"].items()}})


def order_for(job: Job, folder: Path) -> Order:
    """The order for a job whose files are there."""
    files = {role: (str(path.resolve()), digest_of(path)) for role, path in job.files.items()}
    settings = json.loads(json.dumps(job.settings))
    return Order(job.name, job.call, settings, files, job.seed, our_version(), str(folder.resolve()))


@cache
def our_version() -> str:
    """Version of this package; flow and workers must have the same."""
    return metadata.version("edgeloop")
