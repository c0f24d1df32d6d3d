"""200,000 reports while worker, Redis, PostgreSQL and API are each killed once: what was acknowledged, kept, passed on.

`kill -9`, as a crash would; the platform's own supervisor starts each again. The generator sends again what was not
acknowledged, as a device does. Lost is: a report that was answered 202 and is not in PostgreSQL, or that is in
PostgreSQL and does not reach the statistics of its cohort, or counts there twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.intake import bed, fleet
from benchmarks.intake.load import Order, Result
from benchmarks.intake.rate import CONNECTIONS
from edgeloop.figures import Figure, exactly
from embedded.ports import HOST
from embedded.supervisor import Platform

REPORTS = 200_000
KILLS = (("worker", 0.2), ("redis", 0.4), ("postgres", 0.6), ("api", 0.8))
GIVE_UP_S, DRAIN_S = 900.0, 300.0
LOOK_S = 0.5

Tell = Callable[[float, str], None]


@dataclass(frozen=True)
class Standing:
    """What the database holds: reports, device-days, devices in cohort-days."""

    reports: int
    taken: int
    folded: int


def passed_on_rate(platform: Platform, tell: Tell) -> float:
    """Reports a second from the tables through Redis into the statistics, while nothing else is asked of it."""
    begun, first = 0.0, 0
    deadline = time.monotonic() + DRAIN_S
    while time.monotonic() < deadline:
        now = standing(platform)
        tell(now.folded / max(1, now.reports), f"passing on what waits, {now.folded} of {now.reports}")
        if now.folded and not begun:
            begun, first = time.monotonic(), now.folded
        if now.folded >= now.reports:
            return (now.folded - first) / max(1e-3, time.monotonic() - begun)
        time.sleep(LOOK_S / 2)
    return 0.0


def run(platform: Platform, first: int, day: int, tell: Tell, reports: int = REPORTS) -> list[Figure]:
    """Deliver, kill, wait until everything is passed on, compare."""
    order = Order(HOST, platform.info.port, first, reports, day, CONNECTIONS, seconds=GIVE_UP_S)
    begun = time.monotonic()
    result, killed = _deliver(platform, order, tell)
    delivered = time.monotonic() - begun
    seen = _drained(platform, tell)
    drained = time.monotonic() - begun - delivered
    kept, taken = _lost(platform, order, result)
    latencies = sorted(result.latencies)
    refused = {status: count for status, count in result.statuses.items() if status != "202"}
    other = sum(count for status, count in refused.items() if status not in {"429", "503"})
    return [
        exactly("failures.killed", ",".join(killed), "each once, kill -9", ",".join(name for name, _ in KILLS)),
        exactly("failures.acknowledged", result.accepted, "reports", reports),
        exactly("failures.lost", kept, "acknowledged, not in PostgreSQL", 0),
        exactly("failures.not_passed_on", taken, "in PostgreSQL, not taken over by drift", 0),
        exactly("failures.counted", seen.folded - seen.reports, "counted in cohorts more or less than once", 0),
        exactly("failures.odd_answers", other, "answers other than 202, 429 and 503", 0),
        _printed(
            "failures.refused", sum(refused.values()), f"answers 429 or 503, and {result.broken} broken connections"
        ),
        _printed("failures.again", result.duplicates, "acknowledged as duplicates: sent again after a lost answer"),
        _printed("failures.rate", round(result.accepted / delivered), "reports/s with worker, beat and four kills"),
        _printed("failures.p99", round(1e3 * latencies[int(0.99 * len(latencies))]), "ms, retries included"),
        _printed("failures.drain", round(drained, 1), "s until the last one was in its cohort"),
    ]


def standing(platform: Platform) -> Standing:
    """Count; the tables are small enough."""
    with bed.database(platform) as connection:
        row = connection.execute(
            "SELECT (SELECT count(*) FROM telemetry.reports), (SELECT count(*) FROM drift.device_days), "
            "(SELECT COALESCE(sum(devices), 0)::bigint FROM drift.cohort_days)"
        ).fetchone()
    assert row is not None
    return Standing(*row)


def _deliver(platform: Platform, order: Order, tell: Tell) -> tuple[Result, list[str]]:
    delivery, killed = bed.Delivery(order), list[str]()
    try:
        while delivery.running:
            share = delivery.accepted / order.count
            tell(
                0.8 * share, f"{delivery.accepted} of {order.count} acknowledged, killed: {', '.join(killed) or 'none'}"
            )
            if len(killed) < len(KILLS) and share >= KILLS[len(killed)][1]:
                name = KILLS[len(killed)][0]
                platform.kill(name)
                killed.append(name)
            time.sleep(LOOK_S)
        return delivery.result(), killed
    finally:
        delivery.end()


def _drained(platform: Platform, tell: Tell) -> Standing:
    """Wait until everything is passed on, or for `DRAIN_S`."""
    deadline = time.monotonic() + DRAIN_S
    while True:
        now = standing(platform)
        tell(0.8 + 0.2 * now.folded / max(1, now.reports), f"passing on, {now.folded} of {now.reports}")
        if now.folded >= now.reports or time.monotonic() > deadline:
            return now
        time.sleep(LOOK_S)


def _lost(platform: Platform, order: Order, result: Result) -> tuple[int, int]:
    """Acknowledged reports that are not kept, and kept ones that were not taken over, by their natural keys."""
    acknowledged = {fleet.pseudonym(device) for device in range(order.first, order.first + result.sent)}
    acknowledged -= {fleet.pseudonym(device) for device in result.missing}
    with bed.database(platform) as connection:
        kept = {row[0] for row in connection.execute("SELECT pseudonym FROM telemetry.reports")}
        taken = {bytes.fromhex(row[0]) for row in connection.execute("SELECT pseudonym FROM drift.device_days")}
    return len(acknowledged - kept), len(kept - taken)


def _printed(name: str, value: float, unit: str) -> Figure:
    return Figure(name, value, unit, "printed", True)
