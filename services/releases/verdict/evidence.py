"""What is known about a rollout at one look: one row per device, grouped by stratum and arm.

Invariants: the unit is the device, never the report; a device without a value for a metric is absent from
that metric, it is never a zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from services.releases.verdict.crashes import CrashTable
from services.releases.verdict.guardrails import CRASHED_DEVICES, DEGRADED_DEVICES, SILENT_DEVICES
from services.releases.verdict.past import CrashPast
from services.releases.verdict.tails import Tail

POOLED = "all"


class Arm(StrEnum):
    """Which side of the comparison a device stands on; one that waits is exposed and not there yet: on neither."""

    CANARY = "canary"
    CONTROL = "control"
    WAITING = "waiting"


@dataclass(frozen=True)
class DeviceHealth:
    """One device's mean health in one arm. `values` holds the mean guardrails' numbers."""

    device_id: str
    stratum: str
    arm: Arm
    values: Mapping[str, float]
    degraded: bool = False
    crashed: bool = False


@dataclass(frozen=True)
class DeviceInstall:
    """How far one exposed device came with the new bundle. At risk from the first event on."""

    device_id: str
    stratum: str
    failed: bool
    silent: bool


@dataclass(frozen=True)
class Side:
    """One arm of one stratum: devices heard, their values by metric, how many run degraded, how many crashed."""

    devices: int
    degraded: int
    values: Mapping[str, np.ndarray]
    crashed: int = 0

    @staticmethod
    def of(rows: list[DeviceHealth]) -> Side:
        metrics = sorted({name for row in rows for name in row.values})
        values = {m: np.array([row.values[m] for row in rows if m in row.values]) for m in metrics}
        return Side(len(rows), sum(row.degraded for row in rows), values, sum(row.crashed for row in rows))

    def metric(self, name: str) -> np.ndarray:
        return self.values.get(name, np.empty(0))


@dataclass(frozen=True)
class Stratum:
    """One device class of a rollout (or all of them), both arms, and the installations at risk."""

    name: str
    canary: Side
    control: Side
    started: int
    failed: int
    silent: int

    def failures(self, metric: str) -> tuple[int, int]:
        """(failing devices, devices at risk) in the canary for a rate metric."""
        if metric == DEGRADED_DEVICES:
            return self.canary.degraded, self.canary.devices
        if metric == CRASHED_DEVICES:
            return self.canary.crashed, self.canary.devices
        return (self.silent if metric == SILENT_DEVICES else self.failed), self.started


@dataclass(frozen=True)
class Evidence:
    """All strata, the pooled one, and how much of the eligible fleet each stratum makes up.

    `targeted` counts the known devices that the stage exposes; no more can be asked of a small fleet.
    `exposed_share` is the share of the fleet that the split should expose; None where nobody planned one.
    `crashes` holds, by stratum, the crashes that no earlier look has counted and the devices that could have had them;
    `past`, at full exposure, the devices of the last stage as they were as control and as they are now;
    `tail` single devices for the tail statistics; `stage` of `stages` says how much of the rollout is behind.
    """

    strata: tuple[Stratum, ...]
    pooled: Stratum
    fleet_shares: Mapping[str, float] = field(default_factory=dict)
    first_release: bool = False
    targeted: Mapping[str, int] | None = None
    fleet_devices: int = 0
    exposed_share: float | None = None
    crashes: Mapping[str, CrashTable] = field(default_factory=dict)
    past: Mapping[str, CrashPast] = field(default_factory=dict)
    tail: Tail | None = None
    stage: int = 0
    stages: int = 1


def gather(
    health: Iterable[DeviceHealth],
    installs: Iterable[DeviceInstall],
    fleet: Mapping[str, int],
    first_release: bool = False,
    targeted: Mapping[str, int] | None = None,
    exposed_share: float | None = None,
) -> Evidence:
    """Group device rows into evidence; `fleet` counts the eligible devices of each stratum."""
    health, installs = list(health), list(installs)
    names = sorted({row.stratum for row in health} | {row.stratum for row in installs} | set(fleet))
    total = max(sum(fleet.values()), 1)
    return Evidence(
        strata=tuple(_stratum(name, health, installs) for name in names),
        pooled=_stratum(POOLED, health, installs),
        fleet_shares={name: count / total for name, count in fleet.items()},
        first_release=first_release,
        targeted=targeted,
        fleet_devices=sum(fleet.values()),
        exposed_share=exposed_share,
    )


def _stratum(name: str, health: list[DeviceHealth], installs: list[DeviceInstall]) -> Stratum:
    rows = [row for row in health if name in (POOLED, row.stratum)]
    begun = [row for row in installs if name in (POOLED, row.stratum)]
    return Stratum(
        name=name,
        canary=Side.of([row for row in rows if row.arm is Arm.CANARY]),
        control=Side.of([row for row in rows if row.arm is Arm.CONTROL]),
        started=len(begun),
        failed=sum(row.failed for row in begun),
        silent=sum(row.silent for row in begun),
    )
