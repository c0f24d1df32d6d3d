"""`edgeloop bench telemetry`: reports through HTTP into PostgreSQL, what failures cost, and the plan for a fleet.

Real PostgreSQL (fsync and synchronous_commit on) and Redis from their wheels, the platform's own server, worker and
supervisor, a load generator in a process of its own, all on this machine and on loopback. Each report comes from
another device with another token, as in a fleet, so no token is in the server's memory when it comes.

1. rounds: the platform's server against the same one with a store that forgets; latency at half load; a flood
2. failures: 200,000 reports while worker, Redis, PostgreSQL and API are killed
3. the plan for 10 and 50 million devices from the figures of 1 and 2
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from benchmarks.intake import bed, failures, plan, rate, sizes
from contracts.clock import day_of
from edgeloop.figures import Figure
from embedded.supervisor import Platform

COUNTED = 3_000

Tell = Callable[[float, str], None]


def bench(tell: Tell) -> Sequence[Figure]:
    """All figures of the intake."""
    devices = rate.Devices(day_of(time.time()))
    with bed.bed() as made:
        tell(0.0, "starting PostgreSQL, Redis and the API")
        with made.platform(working=False) as platform:
            bed.enrol(platform, rate.devices_needed() + failures.REPORTS)
            bed.register(platform)
            found, durable = _rates(made, platform, devices, tell)
            wal, entry = _costs(platform, devices)
        tell(0.35, "starting worker and beat")
        with made.platform(working=True) as platform:
            passed_on = failures.passed_on_rate(platform, _part(tell, 0.37, 0.45))
            found.append(Figure("rate.passed_on", round(passed_on), "reports/s into cohorts", "printed", True))
            found += failures.run(platform, rate.devices_needed(), devices.day, _part(tell, 0.45, 1.0))
            row, index = sizes.table_bytes(platform)
    measured = plan.Measured(durable.rate, max(1.0, passed_on), row, index, wal, entry, durable.database_us)
    return [*found, *plan.byte_figures(measured), *plan.figures(measured)]


def _rates(made: bed.Bed, platform: Platform, devices: rate.Devices, tell: Tell) -> tuple[list[Figure], rate.Side]:
    """The rounds, the latency at half load and the flood; and the rounds of the durable server."""
    floor, alone = rate.fsync_ms(), rate.commits_alone(platform)
    with made.discarding(platform) as server:
        durable, discard = rate.alternate(platform, server, devices, _part(tell, 0.1, 0.28))
    found = rate.rate_figures(durable, discard, floor, alone)
    tell(0.28, "latency at half of that rate")
    found += rate.paced_figures(platform, durable.rate, devices)
    tell(0.32, "a flood from one token")
    return [*found, *rate.flood_figures(platform, devices)], durable


def _costs(platform: Platform, devices: rate.Devices) -> tuple[float, float]:
    """Bytes a report in the write-ahead log and in Redis."""
    before = sizes.log_position(platform)
    sent = bed.deliver(devices.order(platform.info.port, COUNTED))
    return (sizes.log_position(platform) - before) / sent.accepted, sizes.entry_bytes(platform, devices.day)


def _part(tell: Tell, start: float, end: float) -> Tell:
    """Progress of a part of the bench."""
    return lambda share, text: tell(start + (end - start) * min(1.0, share), text)
