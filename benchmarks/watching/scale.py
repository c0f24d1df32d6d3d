"""How large the seeded platform is, and the words that its devices use. The same scale gives the same rows."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

DAY_S = 86_400.0
CLASSES = ("npu-1t", "npu-2t", "npu-2t-lite", "npu-4t", "npu-4t-lite", "npu-6t", "npu-8t", "npu-10t")
CLASS_SHARES = (0.04, 0.22, 0.09, 0.31, 0.12, 0.10, 0.08, 0.04)
PLACES = ("office", "kitchen", "street", "car", "stage", "garden", "station", "hall", "studio", "corridor")
LIGHTS = ("day", "night", "dusk", "lamp", "backlight")
SCENES = tuple(f"{place}-{light}" for place in PLACES for light in LIGHTS)
REGIONS = ("eu-west", "eu-north", "us-east", "us-west", "in-south", "jp-east", "br-south", "za-west")
NETWORKS = ("wifi", "ethernet", "cellular", "unknown")
DRIVERS = ("1.1", "1.2", "1.3.0", "1.3.1", "1.4")
AGENTS = ("0.0.8", "0.0.9", "0.1.0")
EMBEDDINGS = ("seed-1", "seed-2")


@dataclass(frozen=True)
class Scale:
    """Counts of what is seeded. `now` is the moment that the seeded year ends, in seconds since 1970."""

    devices: int = 1_000_000
    releases: int = 10_000
    days: int = 365
    seed: int = 7
    now: float = 0.0
    builds: int = 400
    clusters: int = 600
    members: int = 200
    audit: int = 200_000
    accounts: int = 60

    @property
    def cohorts(self) -> tuple[str, ...]:
        """Every class in every scene."""
        return tuple(f"{name}/{scene}" for name in CLASSES for scene in SCENES)

    @property
    def today(self) -> int:
        """The last complete day."""
        return int(self.now // DAY_S) - 1

    def dice(self, part: str) -> np.random.Generator:
        """Chance of one part of the seed, whatever the others draw."""
        return np.random.default_rng([self.seed, int.from_bytes(hashlib.sha256(part.encode()).digest()[:4])])

    def name(self, kind: str, number: int, length: int) -> str:
        """A hexadecimal name of up to 96 letters."""
        return hashlib.sha384(f"{self.seed}:{kind}:{number}".encode()).hexdigest()[:length]

    def digest(self, release: int) -> str:
        """The digest of a release's bundle."""
        return self.name("bundle", release, 96)

    def rollout(self, release: int) -> str:
        """The id of a release's rollout."""
        return f"r-{self.name('rollout', release, 12)}"

    def build(self, release: int) -> str:
        """The id of the build behind a release."""
        return f"b-{self.name('build', release, 16)}"

    def version(self, release: int) -> str:
        """The version that people read."""
        return f"2026.{1 + release * 11 // max(1, self.releases)}.{release}"

    def created(self, release: int) -> float:
        """When a release was made: the newest ones a few minutes before `now`."""
        return self.now - (self.releases - release) * self.days * DAY_S / self.releases
