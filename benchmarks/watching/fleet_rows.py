"""Devices with their tokens, and when they were last heard.

Four of five devices run one of the newest releases, the others lag behind, a few were never updated. One in seventy
fell silent long ago, the others spoke within a week.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from benchmarks.watching.copying import Row
from benchmarks.watching.scale import AGENTS, CLASS_SHARES, CLASSES, DAY_S, DRIVERS, NETWORKS, REGIONS, SCENES, Scale

TABLE, COLUMNS = (
    "releases.devices",
    (
        "id", "public_key", "device_class", "tags", "agent_version", "running_digest", "slot_stage", "last_cause",
        "sequence", "state_epoch", "enrolled", "last_feedback",
    ),
)  # fmt: skip
TOKENS, TOKEN_COLUMNS = "kit.tokens", ("id", "secret_hash", "kind", "subject_id", "scopes")
SCOPES = ("feedback:write", "telemetry:write", "updates:read")
NEVER_UPDATED, SILENT = 0.02, 0.014
LAG = 40.0
"""Releases that a device lags behind, on average, of those that lag; two of its class at least."""


@dataclass(frozen=True)
class Fleet:
    """The seeded devices as columns; position i is the same device in each."""

    scale: Scale

    @cached_property
    def ids(self) -> list[str]:
        """Identities in order, 32 hexadecimal letters as enrolment gives them."""
        data = self.scale.dice("ids").bytes(16 * self.scale.devices).hex()
        return sorted(data[at : at + 32] for at in range(0, len(data), 32))

    @cached_property
    def classes(self) -> NDArray[np.int64]:
        """Index of the device class."""
        return self.scale.dice("classes").choice(len(CLASSES), self.scale.devices, p=CLASS_SHARES)

    @cached_property
    def release(self) -> NDArray[np.int64]:
        """The release that runs, -1 for what came with the device."""
        dice, count = self.scale.dice("running"), self.scale.devices
        newest = self.scale.releases - 1 - self.classes
        lagging = dice.random(count) < 0.2
        rounds = 2 + (dice.exponential(LAG, count) / len(CLASSES)).astype(np.int64)
        rounds = np.minimum(rounds, newest // len(CLASSES))
        chosen = np.where(lagging, newest - len(CLASSES) * rounds, newest)
        return np.where(dice.random(count) < NEVER_UPDATED, -1, chosen)

    @cached_property
    def heard(self) -> NDArray[np.float64]:
        """When each was last heard."""
        dice, count = self.scale.dice("heard"), self.scale.devices
        ago = np.where(dice.random(count) < 0.6, dice.uniform(0, 900, count), dice.exponential(0.8 * DAY_S, count))
        ago = np.where(dice.random(count) < SILENT, dice.uniform(8 * DAY_S, 200 * DAY_S, count), ago)
        return np.asarray(self.scale.now - ago)


def devices(fleet: Fleet) -> Iterator[Row]:
    """Rows of `releases.devices`."""
    scale, dice = fleet.scale, fleet.scale.dice("tags")
    count = scale.devices
    digests = [scale.digest(release) for release in range(scale.releases)] + [""]
    pick = {
        name: dice.integers(0, len(words), count).tolist()
        for name, words in (("d", DRIVERS), ("r", REGIONS), ("n", NETWORKS), ("s", SCENES), ("a", AGENTS))
    }
    enrolled = dice.uniform(scale.now - scale.days * DAY_S, scale.now - 9 * DAY_S, count).tolist()
    columns = zip(
        fleet.ids, fleet.classes.tolist(), fleet.release.tolist(), fleet.heard.tolist(), enrolled,
        pick["d"], pick["r"], pick["n"], pick["s"], pick["a"], strict=True,
    )  # fmt: skip
    for name, index, release, heard, joined, driver, region, network, scene, agent in columns:
        tags = (
            f'{{"device_class": "{CLASSES[index]}", "driver": "{DRIVERS[driver]}", "region": "{REGIONS[region]}", '
            f'"network": "{NETWORKS[network]}", "scenario": "{SCENES[scene]}"}}'
        )
        running = digests[release]
        stage, cause = ("confirmed", "") if running else ("", "")
        if release % 97 == 5:
            cause = "crash_loop"
        yield (
            name, f"{name}seededkey00=", CLASSES[index], tags, AGENTS[agent], running, stage, cause, 40, 900,
            f"{joined:.1f}", f"{heard:.1f}",
        )  # fmt: skip


def tokens(fleet: Fleet) -> Iterator[Row]:
    """Rows of `kit.tokens`, one a device. Nobody knows the secrets behind the hashes."""
    hashes = fleet.scale.dice("secrets").bytes(32 * fleet.scale.devices)
    for place, name in enumerate(fleet.ids):
        yield name[:16], hashes[32 * place : 32 * place + 32], "device", name, SCOPES
