"""`edgeloop bench nas`: the architecture search against published problems, the emulated device and random search.

No training: networks are slices of the supernet that ships, so every figure is repeatable. Times are the emulated
device's. Random search gets as many different networks as the search judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.evolving.versus_random import UNLIMITED, judge_space, race
from benchmarks.evolving.whole_nets import compare
from benchmarks.evolving.zdt import PROBLEMS, volume_of
from edgeloop.figures import Figure, at_least, at_most
from flows.search.nsga import SearchSettings
from flows.search.table import OperatorTable
from flows.tasks.vsr.supernet import load_supernet

SEEDS = (0, 1, 2)
SUPERNET = Path(__file__).resolve().parents[1] / "seeds" / "supernet.npz"
WITHIN = 0.005
WHOLE_NETS = 16


def bench(tell: Callable[[float, str], None]) -> Sequence[Figure]:
    """All figures of the search."""
    figures: list[Figure] = []
    for index, name in enumerate(PROBLEMS):
        tell(0.3 * index / len(PROBLEMS), name)
        figures += zdt_figures(name)
    table, found = table_figures(lambda share: tell(0.3 + 0.3 * share, "operator table against whole networks"))
    figures += found
    return [*figures, *race_figures(table, lambda share: tell(0.6 + 0.4 * share, "judging the whole space"))]


def zdt_figures(name: str) -> list[Figure]:
    """Hypervolume of the last population, relative to what the same algorithm is known to reach."""
    problem = PROBLEMS[name]
    volumes = [volume_of(problem, seed=seed) for seed in SEEDS]
    middle = float(np.median(volumes)) / problem.reached
    spread = f"x {problem.reached}; seeds {min(volumes):.4f} to {max(volumes):.4f}, true front {problem.front_volume}"
    return [Figure(f"{name}.hypervolume", round(middle, 4), spread, "within 0.5 %", abs(middle - 1) <= WITHIN)]


def table_figures(tell: Callable[[float], None]) -> tuple[OperatorTable, list[Figure]]:
    """Predicted against measured frames of whole networks, on every target and profile."""
    table, rows = compare(WHOLE_NETS, 1, tell)
    errors = np.abs([row.error for row in rows])
    return table, [
        at_most("table.median_error", round(100 * float(np.median(errors)), 2), "%", 5.0),
        at_most("table.worst_error", round(100 * float(errors.max()), 2), "%", 15.0),
        Figure("table.compared", len(rows), f"frames of {WHOLE_NETS + 1} networks", "printed", True),
        Figure("table.rows", len(table.rows), "operators x targets x sizes", "printed", True),
    ]


def race_figures(table: OperatorTable, tell: Callable[[float], None]) -> list[Figure]:
    """Share of the true front's hypervolume that search and random search find with equal numbers of networks."""
    judged = judge_space(load_supernet(SUPERNET), table, tell)
    figures: list[Figure] = [Figure("space.networks", len(judged), "different networks, all judged", "printed", True)]
    wins = 0
    for seed in SEEDS:
        guided = race(judged, seed, SearchSettings(limit=UNLIMITED, seed=seed))
        plain = race(judged, seed, SearchSettings(limit=UNLIMITED, seed=seed, surrogate=False))
        wins += guided.searched > guided.random
        figures += [
            Figure(f"search.seed{seed}.volume", round(guided.searched, 4), "of the true front", "printed", True),
            Figure(f"random.seed{seed}.volume", round(guided.random, 4), "of the true front", "printed", True),
            Figure(f"search.seed{seed}.ratio", round(guided.searched / guided.random, 4), "x random", "printed", True),
            Figure(f"search.seed{seed}.judged", guided.evaluations, "networks", "printed", True),
            Figure(
                f"nsga2.seed{seed}.volume", round(plain.searched, 4),
                f"of the true front, no surrogate, {plain.evaluations} networks (random {plain.random:.4f})",
                "printed", True,
            ),
        ]  # fmt: skip
    return [*figures, at_least("search.beats_random", wins, f"of {len(SEEDS)} seeds", len(SEEDS))]
