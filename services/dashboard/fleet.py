"""The fleet as a table: which release runs on which device class, and the names of releases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from contracts.wire import Build, DeviceRecord, Rollout

BUILT_IN = "built-in"


@dataclass(frozen=True)
class FleetRow:
    """One release: how many devices of each class run it, and its share of the whole fleet."""

    release: str
    digest: str
    counts: tuple[int, ...]
    total: int
    share: float


@dataclass(frozen=True)
class FleetTable:
    """Releases down, device classes across; `share` of the row that most devices run."""

    classes: tuple[str, ...]
    rows: tuple[FleetRow, ...]
    devices: int


def release_names(rollouts: Iterable[Rollout], builds: Iterable[Build]) -> dict[str, str]:
    """Digest -> release version, from everything that names both."""
    named = {build.digest: build.release_version for build in builds if build.digest}
    named.update({rollout.digest: rollout.release_version for rollout in rollouts})
    return named


def fleet_table(devices: Iterable[DeviceRecord], names: Mapping[str, str]) -> FleetTable:
    """Count devices by release and class, largest release first."""
    counted = Counter((device.running_digest, device.device_class) for device in devices)
    classes = tuple(sorted({device_class for _, device_class in counted}))
    total = sum(counted.values())
    rows = []
    for digest in {digest for digest, _ in counted}:
        counts = tuple(counted[digest, device_class] for device_class in classes)
        name = names.get(digest) or (digest[:12] if digest else BUILT_IN)
        rows.append(FleetRow(name, digest, counts, sum(counts), sum(counts) / total))
    rows.sort(key=lambda row: (-row.total, row.release))
    return FleetTable(classes, tuple(rows), total)
