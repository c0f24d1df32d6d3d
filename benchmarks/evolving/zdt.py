"""ZDT 1, 2, 3, 4 and 6 (Zitzler, Deb and Thiele 2000): two objectives with known fronts, written from the paper.

`front_volume` is the hypervolume below (1.1, 1.1) of the true front cut into 100 points; `reached` is what pymoo's own
NSGA-II reaches with 100 individuals and 250 generations (400 for ZDT4), as measured for the project's reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from flows.search.evolution import Evolution, Numbers, evolve, hypervolume

REFERENCE = np.array([1.1, 1.1])
POPULATION = 100


@dataclass(frozen=True)
class Zdt:
    """One problem: objectives of rows [n, variables], box, generations and known volumes."""

    objectives: Callable[[Numbers], Numbers]
    lower: Numbers
    upper: Numbers
    generations: int
    front_volume: float
    reached: float


def volume_of(problem: Zdt, *, generations: int | None = None, seed: int = 0) -> float:
    """Hypervolume of the last population of the product's search."""
    settings = Evolution(POPULATION, generations or problem.generations, seed=seed)
    found = evolve(
        problem.lower, problem.upper, lambda rows: (problem.objectives(rows), np.zeros((len(rows), 0))), settings
    )
    return hypervolume(found.survivors, REFERENCE)


def _linear(rows: Numbers) -> Numbers:
    return np.asarray(1.0 + 9.0 * rows[:, 1:].mean(axis=1))


def _zdt1(rows: Numbers) -> Numbers:
    g = _linear(rows)
    return np.stack([rows[:, 0], g * (1 - np.sqrt(rows[:, 0] / g))], axis=1)


def _zdt2(rows: Numbers) -> Numbers:
    g = _linear(rows)
    return np.stack([rows[:, 0], g * (1 - (rows[:, 0] / g) ** 2)], axis=1)


def _zdt3(rows: Numbers) -> Numbers:
    f, g = rows[:, 0], _linear(rows)
    return np.stack([f, g * (1 - np.sqrt(f / g) - f / g * np.sin(10 * np.pi * f))], axis=1)


def _zdt4(rows: Numbers) -> Numbers:
    rest = rows[:, 1:]
    g = 1 + 10 * rest.shape[1] + (rest**2 - 10 * np.cos(4 * np.pi * rest)).sum(axis=1)
    return np.stack([rows[:, 0], g * (1 - np.sqrt(rows[:, 0] / g))], axis=1)


def _zdt6(rows: Numbers) -> Numbers:
    f = 1 - np.exp(-4 * rows[:, 0]) * np.sin(6 * np.pi * rows[:, 0]) ** 6
    g = 1 + 9 * rows[:, 1:].mean(axis=1) ** 0.25
    return np.stack([f, g * (1 - (f / g) ** 2)], axis=1)


def _unit(count: int) -> tuple[Numbers, Numbers]:
    return np.zeros(count), np.ones(count)


_ZDT4_BOX = (np.array([0.0, *[-5.0] * 9]), np.array([1.0, *[5.0] * 9]))
PROBLEMS = {
    "zdt1": Zdt(_zdt1, *_unit(30), 250, 0.8714, 0.8697),
    "zdt2": Zdt(_zdt2, *_unit(30), 250, 0.5383, 0.5364),
    "zdt3": Zdt(_zdt3, *_unit(30), 250, 1.3291, 1.3276),
    "zdt4": Zdt(_zdt4, *_ZDT4_BOX, 400, 0.8714, 0.8702),
    "zdt6": Zdt(_zdt6, *_unit(10), 250, 0.5045, 0.4945),
}
