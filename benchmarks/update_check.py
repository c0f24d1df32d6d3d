"""`edgeloop bench update-check`: what a poll with nothing new costs, and what ten million polling devices need.

A server process of its own on one core, PostgreSQL and Redis of its own. Rates of polls and of the same server
answering a constant are taken in turns, so that a machine that slows down slows both; the ratio is the median of the
pairs. A worker's periodic tasks run beside it. Statements are counted by the program that sent them, from PostgreSQL's
own log, over longer than a document stays in the cache; what PostgreSQL counts itself is held beside that, and first
polls, which must read, check the counting. Redis counts its commands for all together.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import httpx
import redis
from sqlalchemy import text

from benchmarks.serving.application import CONSTANT
from benchmarks.serving.devices import add_devices
from benchmarks.serving.load import Rate, drive, get
from benchmarks.serving.platform import BenchPlatform, running_platform
from benchmarks.serving.statements import SERVER, WORKER, Asked
from edge_agent.simulated.device import STATE_PATH, Ticket
from edgeloop.figures import Figure, at_least, at_most, exactly
from services.kit.database import transaction
from services.kit.limits import POLL_TOKENS
from services.kit.settings import settings
from services.releases.limits import STATE

DEVICES = 2_000
ROUNDS, SECONDS = 7, 2.5
COUNTED_S = STATE.cached_s + 10.0  # longer than a document stays in the cache
FLEET, POLL_S = 10_000_000, 60.0
LOAD = 0.5  # of a core's measured rate that a plan may use
SETTLE_S = 11.0  # an idle backend of PostgreSQL hands its counters in after ten seconds
READS = ("get", "getrange", "mget", "hget", "hmget", "exists")
WRITES = ("set", "hset", "del", "expire", "incr")


def bench(tell: Callable[[float, str], None]) -> Sequence[Figure]:
    """Counts, rates and the plan."""
    tell(0.0, "starting PostgreSQL, Redis and a server")
    cores = sorted(os.sched_getaffinity(0))
    with running_platform(server_cpu=cores[0], log_statements=True, worker=True) as platform:
        tell(0.2, "devices")
        tickets = add_devices(DEVICES, "0" * 96)
        etag = _publish(platform, tickets[0])
        requests = _polls(platform, tickets, etag)
        os.sched_setaffinity(0, {cores[-1]})
        try:
            counts = _counts(platform, requests, tell)
            rates = _rates(platform, requests, tell)
        finally:
            os.sched_setaffinity(0, set(cores))
        return [*counts, *rates, *_plan(platform, tickets[0], etag, rates)]


def _publish(platform: BenchPlatform, ticket: Ticket) -> str:
    """Let the first state document be made, and give its ETag."""
    headers = {"Authorization": f"Bearer {ticket.token}"}
    answer = httpx.get(platform.url + STATE_PATH, headers=headers, timeout=30)
    answer.raise_for_status()
    return answer.headers["etag"]


def _polls(platform: BenchPlatform, tickets: Sequence[Ticket], etag: str) -> list[bytes]:
    return [
        get(platform.url, STATE_PATH, {"Authorization": f"Bearer {ticket.token}", "If-None-Match": etag})
        for ticket in tickets
    ]


def _counts(platform: BenchPlatform, requests: Sequence[bytes], tell: Callable[[float, str], None]) -> list[Figure]:
    """Reads and writes of a poll, of devices that the server knows and of devices that it has to look up."""
    tell(0.25, "counting first polls")
    begun = platform.statements.mark()
    first = _each_once(platform, requests)
    looked_up = platform.statements.between(begun, platform.statements.mark()).get(SERVER, Asked())
    tell(0.3, f"counting {COUNTED_S:.0f} s of polls")
    before, begun = _Counted.now(platform), platform.statements.mark()
    polls = drive(platform.url, requests, COUNTED_S)
    ended, after = platform.statements.mark(), _Counted.now(platform)
    asked = platform.statements.between(begun, ended)
    by_polls, by_clock = asked.get(SERVER, Asked()), asked.get(WORKER, Asked())
    named = sum(one.transactions for one in platform.statements.between(*_inside(before, after)).values())
    cache_reads = (after.cache_reads - before.cache_reads) / polls.answers
    cache_writes = (after.cache_writes - before.cache_writes) / polls.answers
    reach, clock = "a poll, every device known", f"in {COUNTED_S:.0f} s, by the worker's clock, polls or not"
    return [
        exactly("poll.wrong_answers", polls.wrong + first.wrong, "", 0),
        exactly("poll.database_writes", by_polls.writes, reach, 0),
        exactly("poll.database_transactions", by_polls.transactions, reach, 0),
        at_most("poll.cache_reads", round(cache_reads, 5), reach, 1),
        at_most("poll.cache_writes", round(cache_writes, 5), f"{reach} (last seen, in bulk)", 0.01),
        Figure("poll.counted", polls.answers, f"polls in {polls.seconds:.0f} s", "printed", True),
        Figure("clock.database_transactions", by_clock.transactions, clock, "printed", True),
        Figure("clock.database_writes", by_clock.writes, clock, "printed", True),
        Figure(
            "counted.unnamed_transactions",
            after.transactions - before.transactions - named,
            "more counted by PostgreSQL than it logged: empty pings of pools, its own housekeeping",
            "printed",
            True,
        ),
        at_least(
            "first_poll.database_transactions", round(looked_up.transactions / first.answers, 3), "a first poll", 0.9
        ),
        exactly("first_poll.database_writes", looked_up.writes, "a first poll", 0),
    ]


def _inside(before: _Counted, after: _Counted) -> tuple[int, int]:
    return before.place, after.place


def _each_once(platform: BenchPlatform, requests: Sequence[bytes]) -> Rate:
    """Every device once, so that the server has met each."""
    answers = wrong = 0
    begun = time.perf_counter()
    with httpx.Client(timeout=30) as client:
        for request in requests:
            lines = request.decode().split("\r\n")[2:]
            headers = dict(line.split(": ", 1) for line in lines if line)
            answers += 1
            wrong += client.get(platform.url + STATE_PATH, headers=headers).status_code != 304
    return Rate(answers, time.perf_counter() - begun, 0.0, wrong)


def _rates(platform: BenchPlatform, requests: Sequence[bytes], tell: Callable[[float, str], None]) -> list[Figure]:
    """Polls and constants in turns."""
    constant, pairs = [get(platform.url, CONSTANT, {})], []
    for turn in range(ROUNDS):
        tell(0.4 + 0.6 * turn / ROUNDS, f"rates {turn + 1} of {ROUNDS}")
        pairs.append((drive(platform.url, requests, SECONDS), drive(platform.url, constant, SECONDS)))
    polls = statistics.median(poll.a_second for poll, _ in pairs)
    constants = statistics.median(one.a_second for _, one in pairs)
    ratios = sorted(poll.a_second / one.a_second for poll, one in pairs)
    busy = max(rate.client_cpu_s / rate.seconds for pair in pairs for rate in pair)
    return [
        Figure("rate.polls", round(polls), "a second, one core", "printed", True),
        Figure("rate.constant", round(constants), "a second, the same server and core", "printed", True),
        at_least("rate.polls_to_constant", round(statistics.median(ratios), 3), "x", 0.6),
        Figure("rate.ratio_spread", f"{ratios[0]:.2f} to {ratios[-1]:.2f}", f"{ROUNDS} pairs", "printed", True),
        Figure("rate.client_core", round(busy, 2), "of a core", "printed: below 1, the server is the limit", True),
    ]


def _plan(platform: BenchPlatform, ticket: Ticket, etag: str, rates: Sequence[Figure]) -> list[Figure]:
    """Ten million devices that poll every minute, from what was measured."""
    rate = float(next(figure.value for figure in rates if figure.id == "rate.polls"))
    headers = {"Authorization": f"Bearer {ticket.token}", "If-None-Match": etag}
    sent = len(get(platform.url, STATE_PATH, headers))
    with httpx.Client(timeout=30) as client:
        same = client.get(platform.url + STATE_PATH, headers=headers)
        whole = client.get(platform.url + STATE_PATH, headers={"Authorization": headers["Authorization"]})
    received = sum(len(name) + len(value) + 4 for name, value in same.headers.raw) + 30
    polls = FLEET / POLL_S
    cores = math.ceil(polls / (rate * LOAD))
    return [
        Figure("plan.polls", round(polls), "a second", f"{FLEET:,} devices, one poll in {POLL_S:.0f} s", True),
        Figure("plan.cores", cores, "cores", f"at {LOAD:.0%} of the measured rate", True),
        Figure("plan.nodes_of_16_cores", math.ceil(cores / 16), "nodes", "printed", True),
        Figure(
            "plan.token_look_ups",
            round(FLEET / (0.75 * POLL_TOKENS.cached_s)),
            "reads of the database a second",
            f"each device once in {0.75 * POLL_TOKENS.cached_s / 3600:g} h",
            True,
        ),
        Figure("plan.in", round(polls * sent * 8 / 1e6), "Mbit/s", f"{sent} bytes a poll, without TCP and TLS", True),
        Figure("plan.out", round(polls * received * 8 / 1e6), "Mbit/s", f"{received} bytes a poll, nothing new", True),
        Figure(
            "plan.change",
            round(FLEET * len(whole.content) / 1e9, 1),
            "GB for a change that every device reads",
            f"{len(whole.content)} bytes a document, once a device",
            True,
        ),
    ]


@dataclass(frozen=True)
class _Counted:
    """What PostgreSQL and Redis have counted up to a moment, and that moment as a place in PostgreSQL's log."""

    transactions: int
    place: int
    cache_reads: int
    cache_writes: int

    @staticmethod
    def now(platform: BenchPlatform) -> _Counted:
        """Counters of both servers, once idle backends have handed theirs in."""
        time.sleep(SETTLE_S)
        query = text("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()")
        with transaction() as session:
            place = platform.statements.mark()
            transactions = int(session.scalar(query) or 0)
        client = redis.Redis.from_url(settings().redis_url)
        found = client.info("commandstats")
        client.close()

        def calls(names: Sequence[str]) -> int:
            return sum(found.get(f"cmdstat_{name}", {}).get("calls", 0) for name in names)

        return _Counted(transactions, place, calls(READS), calls(WRITES))
