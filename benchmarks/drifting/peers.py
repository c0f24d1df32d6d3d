"""Evidently's embedding methods and ours on the same frames, from the committed table, as figures.

`python -m benchmarks.peers.evidently.run` makes the table: both in one run, one core, on the same machine.
"""

from __future__ import annotations

from benchmarks.judging.rows import printed, standard_error
from benchmarks.peers.evidently.results import Row, read_results
from edgeloop.figures import Figure

OURS = "edgeloop"


def figures() -> list[Figure]:
    """Ours first in every case; a peer's figures have no promise."""
    results = read_results()
    made = f"evidently {results.packages['evidently']}, {results.date}"
    return [figure for row in results.rows for figure in _row(row, made)]


def _row(row: Row, made: str) -> list[Figure]:
    name = f"evidently.{row.case}.{row.method}"
    reach = "printed" if row.method == OURS else f"printed ({made})"
    return [
        printed(f"{name}.false_alarms", row.false_alarms / row.healthy, _of(row.false_alarms, row.healthy), reach),
        printed(f"{name}.found_d_0.5", row.found / row.shifted, _of(row.found, row.shifted), reach),
        printed(f"{name}.found_d_1", row.large_found / row.large, _of(row.large_found, row.large), reach),
        printed(f"{name}.cost", round(row.bytes / 1e6, 3), f"MB kept to judge a day; {row.seconds:g} s", reach),
    ]


def _of(hits: int, runs: int) -> str:
    return f"± {standard_error(hits / runs, runs):.2f} ({hits} of {runs} days)"
