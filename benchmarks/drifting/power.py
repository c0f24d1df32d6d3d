"""Real shifts: how often one day suffices, and how far the smallest devices' reports carry.

The promised case is a shift of D = 0.5 spread evenly over the 28 directions, which no single direction shows (0.09
standard deviations each), among 1,000 devices on one day; the rest of the table says what smaller cohorts can expect.
"Found" is a day judged `warn` or `severe`, not only significant.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.drifting.population import Population, device_votes, healthy_fleet
from benchmarks.judging.rows import floor, printed, standard_error
from contracts.statistics.moments import SUBSPACE
from edgeloop.figures import Figure
from services.drift.domain.reference import pooled_spread
from services.drift.domain.verdict import drifting, judge, measure
from services.drift.limits import DriftSettings

SEED = 602
RUNS = 400
COHORTS = 4
PROMISED_DEVICES, PROMISED_SHIFT, PROMISED = 1_000, 0.5, 0.99
TABLE = ((100, 0.5), (200, 0.5), (200, 0.35), (1_000, 0.35), (60, 1.0))
SETTINGS = DriftSettings()

Say = Callable[[float, str], None]


def figures(say: Say, share: float = 1.0) -> list[Figure]:
    """The promised case for both populations, then the table."""
    runs, found = max(1, round(RUNS * share)), []
    for population in (Population(), Population(heavy=True)):
        say(0.0 if not population.heavy else 0.3, f"power, {population.name}")
        hits = caught(population, PROMISED_DEVICES, PROMISED_SHIFT, runs)
        name = f"power.{population.name}.{PROMISED_DEVICES}_devices_d_{PROMISED_SHIFT}"
        found.append(floor(name, hits, runs, PROMISED))
    for index, (devices, size) in enumerate(TABLE):
        say(0.6 + 0.4 * index / len(TABLE), f"power, {devices} devices, D = {size}")
        rate = caught(Population(), devices, size, runs) / runs
        unit = f"± {standard_error(rate, runs):.3f} ({runs} days)"
        found.append(printed(f"power.gaussian.{devices}_devices_d_{size}", round(rate, 4), unit))
    return found


def caught(population: Population, devices: int, size: float, runs: int) -> int:
    """On how many of `runs` days one cohort of four that moved by `size` was judged to drift."""
    rng, hits = np.random.default_rng((SEED, devices, round(100 * size))), 0
    shift = np.full(SUBSPACE, size / np.sqrt(SUBSPACE))
    for _ in range(runs):
        levels = rng.standard_normal((COHORTS, SUBSPACE))
        references = healthy_fleet(rng, population, levels, devices)
        spread = pooled_spread(references)
        levels[0] += shift
        days = [device_votes(rng, population, devices, level) for level in levels]
        measured = {
            f"class/{index}": measure(day, reference, spread, SETTINGS)
            for index, (day, reference) in enumerate(zip(days, references, strict=True))
        }
        hits += drifting(judge(measured, SETTINGS)["class/0"].state)
    return hits
