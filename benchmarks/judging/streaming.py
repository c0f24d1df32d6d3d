"""Streams: a look after every pair of devices, naive z test against the normal-mixture sequence; its power."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from benchmarks.judging import tables
from benchmarks.judging.boundaries import fixed_drift
from benchmarks.judging.rows import ceiling, floor, matches
from benchmarks.judging.tables import ALPHA, Z
from edgeloop.figures import Figure, at_most
from services.releases.verdict.intervals import mixture_multiplier, tuning

Floats = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]

RUNS, CHUNK = 2_000, 50
PAIRS, FIRST = 5_000, 100
POWER_RUNS, POWER_PAIRS, POWER_FIRST = 4_000, 1_000, 10
SEED = 542

DRAWS: dict[str, Draw] = {
    "normal": lambda generator, shape: generator.standard_normal(shape),
    "exponential": lambda generator, shape: generator.standard_exponential(shape),
    "lognormal": lambda generator, shape: np.exp(generator.standard_normal(shape)),
    "flags_of_2_percent": lambda generator, shape: (generator.random(shape) < 0.02).astype(np.float64),
}


def figures() -> list[Figure]:
    """All figures of streams."""
    found = []
    for index, (name, draw) in enumerate(DRAWS.items()):
        naive, sequence = _false_positives(draw, SEED + index)
        found.append(matches(f"continuous.{name}.z_test", naive, RUNS, tables.NAIVE_CONTINUOUS))
        found.append(matches(f"continuous.{name}.mixture", sequence, RUNS, tables.SEQUENCE_CONTINUOUS))
        found.append(ceiling(f"continuous.{name}.mixture_false_positives", sequence, RUNS))
    return [*found, _width(), *_power()]


def _false_positives(draw: Draw, seed: int) -> tuple[int, int]:
    generator, naive, sequence = np.random.default_rng(seed), 0, 0
    multipliers = _multipliers(PAIRS)[FIRST - 1 :]
    for _ in range(RUNS // CHUNK):
        z = np.abs(_z(draw(generator, (CHUNK, PAIRS)), draw(generator, (CHUNK, PAIRS)))[:, FIRST - 1 :])
        naive += int((z > Z).any(axis=1).sum())
        sequence += int((z > multipliers).any(axis=1).sum())
    return naive, sequence


def _z(canary: Floats, control: Floats) -> Floats:
    """Standardised difference of means after every pair, shape (runs, pairs)."""
    count = np.arange(1, canary.shape[1] + 1)
    estimate, squared = np.zeros(canary.shape), np.zeros(canary.shape)
    for values, sign in ((canary, 1.0), (control, -1.0)):
        mean = np.cumsum(values, axis=1) / count
        estimate += sign * mean
        squared += (np.cumsum(values**2, axis=1) / count - mean**2) / np.maximum(count - 1, 1)
    return np.asarray(estimate / np.sqrt(np.maximum(squared, 1e-300)) * (squared > 1e-15))


def _multipliers(pairs: int) -> Floats:
    rho = tuning(ALPHA, pairs)
    return np.array([mixture_multiplier(count, ALPHA, rho) for count in range(1, pairs + 1)])


def _width() -> Figure:
    width = float(_multipliers(PAIRS)[-1]) / Z
    return at_most("mixture.width_from_table", round(abs(width - tables.WIDTH), 6), "fixed intervals", 0.0005)


def _power() -> list[Figure]:
    """Watched after every pair, at the size and effect where a fixed test has 80 %."""
    generator, hits = np.random.default_rng(SEED + 50), 0
    effect = fixed_drift(ALPHA, 0.8) * (2.0 / POWER_PAIRS) ** 0.5
    multipliers = _multipliers(POWER_PAIRS)[POWER_FIRST - 1 :]
    for _ in range(POWER_RUNS // 500):
        shape = (500, POWER_PAIRS)
        z = _z(generator.standard_normal(shape) + effect, generator.standard_normal(shape))
        hits += int((np.abs(z[:, POWER_FIRST - 1 :]) > multipliers).any(axis=1).sum())
    return [
        floor("power.mixture", hits, POWER_RUNS, 0.50),
        matches("power.mixture_against_table", hits, POWER_RUNS, tables.POWER_SEQUENCE),
    ]
