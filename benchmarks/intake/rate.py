"""Reports a second into PostgreSQL against the same server discarding, latency at half of it, and one token's flood.

Both servers are up all the time; rounds alternate, so that what else the machine does falls on both. Load generator,
server and PostgreSQL share the machine's cores, and the CPU time of each is printed.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.intake import bed
from benchmarks.intake.load import Order, Result
from edgeloop.figures import Figure, at_least, at_most, exactly
from embedded.ports import HOST
from embedded.supervisor import Platform

ROUNDS, REPORTS, CONNECTIONS = 3, 6_000, 64
WARM_UP = 1_000
HALF_LOAD = 0.5
PACED_S = 8.0
FLOOD_S, NEIGHBOURS, NEIGHBOUR_RATE = 8.0, 120, 20.0
LEAST_SHARE, LEAST_HEADROOM, MOST_GROWTH_MB = 0.5, 2.0, 64.0

Tell = Callable[[float, str], None]


@dataclass
class Side:
    """The rounds of one server. CPU seconds are summed over its rounds."""

    results: list[Result] = field(default_factory=list)
    server_cpu: float = 0.0
    database_cpu: float = 0.0

    @property
    def rates(self) -> list[float]:
        """Reports a second of each round."""
        return [result.accepted / result.seconds for result in self.results]

    @property
    def rate(self) -> float:
        """The median."""
        return statistics.median(self.rates)

    @property
    def database_us(self) -> float:
        """Microseconds of PostgreSQL's CPU time a report."""
        return 1e6 * self.database_cpu / self.reports

    @property
    def reports(self) -> int:
        """Reports of all rounds."""
        return sum(result.accepted for result in self.results)


class Devices:
    """Gives out devices that have not reported yet."""

    def __init__(self, day: int) -> None:
        self.day, self.used = day, 0

    def order(self, port: int, count: int, **how: float | bool) -> Order:
        """An order for the next `count` devices."""
        first, self.used = self.used, self.used + count
        chosen: dict[str, object] = {"connections": CONNECTIONS, **how}
        return Order(host=HOST, port=port, first=first, count=count, day=self.day, **chosen)  # type: ignore[arg-type]


def devices_needed() -> int:
    """How many devices the rounds use at most; the flood's numbers need no token."""
    return 2 * WARM_UP + 2 * ROUNDS * REPORTS + 20_000


def alternate(platform: Platform, discarding: tuple[int, int], devices: Devices, tell: Tell) -> tuple[Side, Side]:
    """Durable and discarding, round by round."""
    durable, discard = Side(), Side()
    pids = {"durable": bed.child_pid(platform, "api"), "discard": discarding[1]}
    ports = {"durable": platform.info.port, "discard": discarding[0]}
    for port in ports.values():
        bed.deliver(devices.order(port, WARM_UP))
    for turn in range(ROUNDS):
        for position, (name, side) in enumerate((("durable", durable), ("discard", discard))):
            tell((2 * turn + position) / (2 * ROUNDS), f"round {turn + 1} of {ROUNDS}, {name}")
            before = bed.cpu_seconds(pids[name]), bed.cpu_seconds(bed.child_pid(platform, "postgres"))
            side.results.append(bed.deliver(devices.order(ports[name], REPORTS)))
            side.server_cpu += bed.cpu_seconds(pids[name]) - before[0]
            side.database_cpu += bed.cpu_seconds(bed.child_pid(platform, "postgres")) - before[1]
    return durable, discard


def rate_figures(durable: Side, discard: Side, fsync_ms: float, alone: float) -> list[Figure]:
    """The promise, and everything that says what it rests on."""
    share = statistics.median(a / b for a, b in zip(durable.rates, discard.rates, strict=True))
    generator = sum(result.cpu_seconds for result in discard.results)
    ceiling = discard.reports / generator
    latencies = sorted(each for result in durable.results for each in result.latencies)
    cores = len(os.sched_getaffinity(0))
    return [
        at_least("rate.share", round(share, 3), "of the discarding server, median of pairs", LEAST_SHARE),
        _printed("rate.durable", round(durable.rate), f"reports/s into PostgreSQL, {_spread(durable)}"),
        _printed("rate.discard", round(discard.rate), f"reports/s discarded, {_spread(discard)}"),
        _printed("rate.alone", round(alone), "reports/s with a commit each, one connection, no HTTP"),
        _printed("rate.p99_full", _ms(latencies, 0.99), f"ms at full load, {CONNECTIONS} connections"),
        _printed("rate.cpu_server", _us(durable.server_cpu, durable), "us of CPU a report, server"),
        _printed("rate.cpu_discard", _us(discard.server_cpu, discard), "us of CPU a report, server that discards"),
        _printed("rate.cpu_database", _us(durable.database_cpu, durable), "us of CPU a report, PostgreSQL"),
        _printed("rate.cpu_load", round(1e6 / ceiling), f"us of CPU a report, generator; all share {cores} cores"),
        _printed("rate.load_ceiling", round(ceiling), "reports/s that the generator could send with a core to itself"),
        at_least("rate.load_headroom", round(ceiling / discard.rate, 1), "x the discarding server", LEAST_HEADROOM),
        _printed("floor.fsync", round(fsync_ms, 2), "ms for a flushed 8 KiB write to the same disk, median"),
        exactly("rate.not_202", _other(durable) + _other(discard), "answers other than 202", 0),
    ]


def paced_figures(platform: Platform, rate: float, devices: Devices) -> list[Figure]:
    """Latency at half of the measured rate, counted from when each report was due."""
    paced = HALF_LOAD * rate
    result = bed.deliver(devices.order(platform.info.port, int(paced * PACED_S), rate=paced))
    latencies = sorted(result.latencies)
    where = f"ms at {paced:.0f} reports/s on a timetable"
    return [
        _printed("latency.p50", _ms(latencies, 0.5), where),
        _printed("latency.p99", _ms(latencies, 0.99), where),
        exactly("latency.lost", len(result.missing), "reports", 0),
    ]


def flood_figures(platform: Platform, devices: Devices) -> list[Figure]:
    """One token sends as fast as it can while neighbours report."""
    server = psutil.Process(bed.child_pid(platform, "api"))
    neighbours = devices.order(platform.info.port, NEIGHBOURS, rate=NEIGHBOUR_RATE, connections=8)
    grown_from, cpu = server.memory_info().rss, bed.cpu_seconds(server.pid)
    flooding = Order(
        host=HOST,
        port=platform.info.port,
        first=devices.order(platform.info.port, 1).first,
        count=10**9,
        day=devices.day,
        connections=CONNECTIONS,
        seconds=FLOOD_S,
        one_token=True,
    )
    flood = bed.Delivery(flooding)
    time.sleep(0.5)
    heard = bed.deliver(neighbours)
    told = flood.result()
    refused = told.statuses.get("429", 0)
    spent = bed.cpu_seconds(server.pid) - cpu
    grown = (server.memory_info().rss - grown_from) / 1e6
    odd = {status for status in (*told.statuses, *heard.statuses) if status not in {"202", "429"}}
    return [
        _printed("flood.refused", round(refused / told.seconds), "refusals/s to one token"),
        _printed("flood.cpu", round(1e6 * spent / max(1, sum(told.statuses.values()))), "us of CPU an answer"),
        exactly("flood.odd_answers", ",".join(sorted(odd)), "statuses other than 202 and 429", ""),
        exactly("flood.neighbours", heard.accepted, "reports of neighbours accepted", NEIGHBOURS),
        _printed("flood.neighbours_p99", _ms(sorted(heard.latencies), 0.99), "ms, neighbours during the flood"),
        at_most("flood.memory", round(grown, 1), "MB that the server grew", MOST_GROWTH_MB),
    ]


def fsync_ms(times: int = 60) -> float:
    """Median of a flushed write of one page: no commit can be faster."""
    with tempfile.NamedTemporaryFile(dir=Path(tempfile.gettempdir())) as file:
        spent = []
        for _ in range(times):
            begun = time.perf_counter()
            file.write(bytes(8_192))
            file.flush()
            os.fsync(file.fileno())
            spent.append(1e3 * (time.perf_counter() - begun))
    return statistics.median(spent)


def commits_alone(platform: Platform, seconds: float = 2.0) -> float:
    """Rows a second when each has a commit of its own: what group commit is there for."""
    with bed.database(platform) as connection:
        connection.execute("CREATE TABLE public.bench_alone (id bigint PRIMARY KEY, body bytea)")
        count, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            connection.execute("INSERT INTO public.bench_alone VALUES (%s, %s)", [count, bytes(1_988)])
            count += 1
        connection.execute("DROP TABLE public.bench_alone")
    return count / seconds


def _printed(name: str, value: float, unit: str) -> Figure:
    return Figure(name, value, unit, "printed", True)


def _spread(side: Side) -> str:
    return f"{min(side.rates):.0f} to {max(side.rates):.0f} in {len(side.rates)} rounds"


def _us(seconds: float, side: Side) -> int:
    return round(1e6 * seconds / side.reports)


def _ms(latencies: list[float], share: float) -> float:
    return round(1e3 * latencies[min(len(latencies) - 1, int(share * len(latencies)))], 1)


def _other(side: Side) -> int:
    return sum(count for result in side.results for status, count in result.statuses.items() if status != "202")
