"""The fleet as a table: which release runs on which device class."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from contracts.wire import RunningCount
from services.dashboard.limits import LIMITS

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
    """Releases down, device classes across, at most `LIMITS.fleet_rows` of them.

    `releases` counts all; `further` are the devices of those that are not shown.
    """

    classes: tuple[str, ...]
    rows: tuple[FleetRow, ...]
    devices: int
    releases: int
    further: int


def fleet_table(running: Iterable[RunningCount]) -> FleetTable:
    """Devices by release and class, largest release first."""
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    names: dict[str, str] = {}
    for one in running:
        counted[one.digest][one.device_class] += one.devices
        names[one.digest] = one.version or (one.digest[:12] if one.digest else BUILT_IN)
    classes = tuple(sorted({name for by_class in counted.values() for name in by_class}))
    total = sum(by_class.total() for by_class in counted.values())
    rows = [
        FleetRow(names[digest], digest, tuple(own[name] for name in classes), own.total(), own.total() / total)
        for digest, own in counted.items()
    ]
    rows.sort(key=lambda row: (-row.total, row.release))
    shown = tuple(rows[: LIMITS.fleet_rows])
    return FleetTable(classes, shown, total, len(rows), total - sum(row.total for row in shown))
