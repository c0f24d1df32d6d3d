"""Views of pages by one signed-in person, one after the other: server time, and every statement that they cause.

Server time is from the first byte sent to the last byte received over a kept loopback connection. A statement is every
line that PostgreSQL logs for another program than the bench: reads, writes and pings of pools; BEGIN and COMMIT stand
around them and are told apart.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import httpx

from benchmarks.serving.statements import BENCH
from benchmarks.watching.effort import spent_s
from benchmarks.watching.pages import Page, walk
from benchmarks.watching.processes import Watched
from contracts.wire.identity import AccountRequest, Role
from edgeloop.figures import Figure, below, exactly
from services.identity import accounts
from services.kit.database import transaction

ROUNDS, LEAST_WARM = 40, 3
P95_MS, QUERIES = 300.0, 20
NAME, PASSWORD = "watcher", "three wet cats in a bag"  # of a platform that ends with the bench
EXPECTED = (200, 303, 401, 409, 422)
"""The last three are what sign-in pages say without an identity provider, and a comparison without two bundles."""

Tell = Callable[[float, str], None]


@dataclass(frozen=True)
class Seen:
    """What visits of one page showed; `queries` and `transactions` are the most of any one view."""

    page: Page
    p95_ms: float
    median_ms: float
    first_ms: float
    cpu_ms: float
    queries: int
    transactions: int
    kilobytes: float
    wrong: tuple[str, ...]
    texts: tuple[str, ...]


def sign_in(watched: Watched) -> httpx.Client:
    """A browser's client, signed in by name and password as a new administrator."""
    with transaction() as session:
        accounts.create(session, "system:bench", AccountRequest(name=NAME, role=Role.ADMIN, password=PASSWORD))  # type: ignore[arg-type]  # the trail takes words too
    client = httpx.Client(base_url=watched.console, trust_env=False, timeout=60, headers={"Origin": watched.console})
    answer = client.post("/login", data={"name": NAME, "password": PASSWORD})
    if answer.status_code != 303:
        raise RuntimeError(f"the console let nobody in: {answer.status_code} {answer.text[:300]}")
    return client


def visit_all(watched: Watched, client: httpx.Client, pages: Sequence[Page], rounds: int, tell: Tell) -> list[Seen]:
    """Every page `rounds` times."""
    seen = []
    for number, page in enumerate(pages):
        tell(number / len(pages), page.name)
        seen.append(visit(watched, client, page, rounds))
    return seen


def visit(watched: Watched, client: httpx.Client, page: Page, rounds: int) -> Seen:
    """One page: each address once or more to warm up, then `rounds` views."""
    first, wrong, sizes, times, queries, transactions, texts = 0.0, [], [], [], 0, 0, ()
    for number, address in enumerate(walk(page, max(LEAST_WARM, len(page.addresses)))):
        begun = time.perf_counter()
        client.get(address)
        first = first if number else time.perf_counter() - begun
    spent = spent_s()
    for address in walk(page, rounds):
        place, begun = watched.log.mark(), time.perf_counter()
        answer = client.get(address)
        times.append(time.perf_counter() - begun)
        asked = [one for name, one in watched.log.between(place, watched.log.mark()).items() if name != BENCH]
        sizes.append(len(answer.content))
        count = sum(one.statements for one in asked)
        if count > queries:
            queries, texts = count, tuple(text for one in asked for text in one.texts)
        transactions = max(transactions, sum(one.transactions for one in asked))
        if answer.status_code not in EXPECTED or "No answer." in answer.text:
            wrong.append(f"{answer.status_code} {address}")
    cpu_ms = 1_000 * (spent_s() - spent) / rounds
    return Seen(
        page, 1_000 * _p95(times), 1_000 * statistics.median(times), 1_000 * first, cpu_ms, queries, transactions,
        max(sizes) / 1_000, tuple(wrong), texts,
    )  # fmt: skip


def figures(seen: Sequence[Seen], unvisited: Sequence[str]) -> list[Figure]:
    """Per page and in all."""
    slowest, busiest = max(seen, key=lambda one: one.p95_ms), max(seen, key=lambda one: one.queries)
    wrong = [address for one in seen for address in one.wrong]
    count = len({one.page.route for one in seen})
    found = [
        exactly("pages.unvisited", ", ".join(unvisited), "routes of the console without a visit", ""),
        exactly("pages.wrong", ", ".join(wrong[:5]), "answers that are no page, or with a source missing", ""),
        Figure("pages.visited", len(seen), f"kinds of view of {count} routes", "printed", True),
        Figure("pages.transactions", max(one.transactions for one in seen), "the most a view", "printed", True),
        below("worst.p95", round(slowest.p95_ms, 1), f"ms ({slowest.page.name})", P95_MS),
        below("worst.queries", busiest.queries, f"a view ({busiest.page.name})", QUERIES),
    ]
    for one in seen:
        of = f"median {one.median_ms:.0f}, first view {one.first_ms:.0f}, CPU {one.cpu_ms:.0f}, {one.kilobytes:.0f} kB"
        found.append(below(f"page.{one.page.name}.p95", round(one.p95_ms, 1), "ms", P95_MS))
        found.append(Figure(f"page.{one.page.name}.more", of, "ms, ms, ms, size", "printed", True))
        found.append(below(f"page.{one.page.name}.queries", one.queries, "a view", QUERIES))
    return found


def repeated(one: Seen, least: int = 2) -> list[str]:
    """Statements that one view sent more than once, the most frequent first: where to look for a loop."""
    counts = [(len(list(group)), text) for text, group in groupby(sorted(one.texts))]
    return [f"{count} x {text}" for count, text in sorted(counts, reverse=True) if count >= least]


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, round(0.95 * len(values)))]
