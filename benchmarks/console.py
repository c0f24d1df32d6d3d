"""`edgeloop bench console`: every page of the console in front of a million devices, and how soon it shows an event.

A platform of its own is filled with a year of a large fleet by COPY (`benchmarks/watching/seed.py`): a million devices
with tokens, 10,000 releases with stages, looks and exposures, 365 days of 400 cohorts, 200,000 entries of the audit
trail. Then the real APIs and the real console run as two processes, somebody signs in, and

1. every route of the console is visited, lists also deep and at their end, searches with many, few and no hits
2. rollouts are paused, devices report and alarms are raised while headless Chromium looks at the page
3. routes without a scope are counted

The flow engine behind *Flows* is a stand-in that answers from memory. PostgreSQL keeps nothing durable and logs every
statement, on the machine that also runs servers, client and browser. Journeys by keyboard, axe, roles and failing
sources are tests: `tests/dashboard`. `python -m benchmarks.watching.seed` fills a platform by hand.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from benchmarks.watching import events, flow_engine, pages, processes, seed, visits
from benchmarks.watching.scale import Scale
from edgeloop.figures import Figure, exactly
from services.kit.logs import configure_logs
from tests.kit.test_scopes import PUBLIC, all_operations, guarded

Tell = Callable[[float, str], None]


def bench(tell: Tell) -> Sequence[Figure]:
    """All figures of the console."""
    configure_logs("bench", "WARNING")  # what is printed is the figures
    scale = Scale(now=float(int(time.time())))
    with flow_engine.flow_engine(scale.now) as engine, processes.database(engine) as folder:
        begun = time.monotonic()
        counts = seed.fill(scale, _part(tell, 0.0, 0.35))
        seeded = time.monotonic() - begun
        with processes.servers(folder) as watched:
            client = visits.sign_in(watched)
            known = pages.routes()
            chosen = pages.pages(scale, known)
            seen = visits.visit_all(watched, client, chosen, visits.ROUNDS, _part(tell, 0.35, 0.85))
            shown = events.measure(watched, scale, _part(tell, 0.85, 1.0))
    return [
        Figure("seed.rows", sum(counts.values()), f"rows in {seeded:.0f} s", "printed", True),
        *(Figure(f"seed.{name}", count, "", "printed", True) for name, count in _told(counts).items()),
        *events.figures(shown),
        exactly("routes.without_scope", len(unguarded()), f"of {len(all_operations())} operations", 0),
        *visits.figures(seen, pages.unvisited(known, chosen)),
    ]


def unguarded() -> tuple[str, ...]:
    """Operations of services and console without a scope or a session that are not on the test's list, with reasons."""
    open_ones = {(one.method, one.path) for one in all_operations() if not guarded(one)}
    return tuple(f"{method} {path}" for method, path in sorted(open_ones - set(PUBLIC)))


def _told(counts: dict[str, int]) -> dict[str, int]:
    names = ("releases.devices", "releases.rollouts", "releases.exposures", "drift.evaluations", "kit.audit")
    return {name: counts[name] for name in names}


def _part(tell: Tell, start: float, end: float) -> Tell:
    return lambda share, text: tell(start + (end - start) * min(1.0, share), text)
