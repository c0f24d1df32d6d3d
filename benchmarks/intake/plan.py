"""What a fleet needs, worked out from what was measured on one node. Pure arithmetic, no I/O.

A node is the machine of the bench: it answers the devices, keeps the rows and passes them on. The share `FILLED` of its
measured rate is planned with. Devices report once a day and spread by jitter over 24 hours; the worst case is that all
report within one hour. Segments are not in here: how many come depends on how often a fleet's calls are hard.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from edgeloop.figures import Figure

DAY_S, HOUR_S = 86_400, 3_600
KEPT_DAYS = 30
FILLED = 0.6
UNEVEN = 3.0
FLEETS = (10_000_000, 50_000_000)


@dataclass(frozen=True)
class Measured:
    """Of one node: reports a second; bytes a report in table and indexes, in the log, in a stream entry.

    `database_us` is PostgreSQL's CPU time for a report, in microseconds.
    """

    per_s: float
    passed_on_per_s: float
    row_bytes: float
    index_bytes: float
    wal_bytes: float
    entry_bytes: float
    database_us: float


@dataclass(frozen=True)
class Plan:
    """Of one fleet. Rates are reports a second, sizes bytes."""

    devices: int
    mean_rate: float
    hour_rate: float
    nodes: int
    nodes_one_hour: int
    readers: int
    database_cores: float
    day_bytes: float
    kept_bytes: float
    kept_rows: int
    wal_day_bytes: float
    stream_hour_bytes: float


def plan(devices: int, found: Measured) -> Plan:
    """What `devices` need when every one reports once a day."""
    mean, worst = devices / DAY_S, devices / HOUR_S
    day_bytes = devices * (found.row_bytes + found.index_bytes)
    return Plan(
        devices=devices,
        mean_rate=mean,
        hour_rate=worst,
        nodes=nodes_for(UNEVEN * mean, found.per_s),
        nodes_one_hour=nodes_for(worst, found.per_s),
        readers=nodes_for(UNEVEN * mean, found.passed_on_per_s),
        database_cores=UNEVEN * mean * found.database_us / 1e6 / FILLED,
        day_bytes=day_bytes,
        kept_bytes=KEPT_DAYS * day_bytes,
        kept_rows=KEPT_DAYS * devices,
        wal_day_bytes=devices * found.wal_bytes,
        stream_hour_bytes=HOUR_S * mean * found.entry_bytes,
    )


def nodes_for(rate: float, per_node: float) -> int:
    """Nodes that carry `rate` when each is filled to `FILLED`."""
    return max(1, math.ceil(rate / (FILLED * per_node)))


def figures(found: Measured) -> list[Figure]:
    """The plan for each fleet, printed."""
    return [figure for devices in FLEETS for figure in _printed(plan(devices, found))]


def _printed(made: Plan) -> list[Figure]:
    name = f"plan.{made.devices // 1_000_000}m"
    rows = (
        ("rate", round(made.mean_rate, 1), "reports/s, spread over the day"),
        ("rate_one_hour", round(made.hour_rate), "reports/s, all within one hour"),
        ("nodes", made.nodes, f"nodes like this one, at {FILLED:.0%} of its rate and {UNEVEN:g} x the mean"),
        ("nodes_one_hour", made.nodes_one_hour, "such nodes, all within one hour"),
        ("readers", made.readers, "worker nodes that pass on and fold, likewise"),
        ("database_cores", round(made.database_cores, 2), "cores of one PostgreSQL for all of them, likewise"),
        ("rows_a_day", made.devices, "rows"),
        ("rows_kept", made.kept_rows, f"rows in {KEPT_DAYS} days, one table a day"),
        ("bytes_a_day", round(made.day_bytes / 1e9, 1), "GB in table and indexes"),
        ("bytes_kept", round(made.kept_bytes / 1e12, 2), f"TB in {KEPT_DAYS} days"),
        ("wal_a_day", round(made.wal_day_bytes / 1e9, 1), "GB of write-ahead log"),
        ("stream_an_hour", round(made.stream_hour_bytes / 1e9, 2), "GB of Redis for each hour the reader is away"),
    )
    return [Figure(f"{name}.{key}", value, unit, "printed", True) for key, value, unit in rows]


def byte_figures(found: Measured) -> list[Figure]:
    """What a report costs on disk and in memory, printed."""
    rows = (
        ("bytes.row", found.row_bytes, "bytes a report in its table"),
        ("bytes.index", found.index_bytes, "bytes a report in two indexes"),
        ("bytes.wal", found.wal_bytes, "bytes a report of write-ahead log, full pages included"),
        ("bytes.entry", found.entry_bytes, "bytes a report while it waits in Redis"),
    )
    return [Figure(name, round(value), unit, "printed", True) for name, value, unit in rows]
