"""NSGA-II (Deb et al. 2002) over any box of numbers, by pymoo: seeded, asked and told, asked and told.

`judge` gets rows and returns objectives (smaller is better) and violations (at most 0 is allowed). With a penalty
schedule a violation costs `weight(generation) * violation` in every objective instead of ranking below everything that
is allowed: early generations may pass through forbidden networks, late ones may not stay there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.core.evaluator import Evaluator
from pymoo.core.problem import Problem
from pymoo.indicators.hv import HV
from pymoo.operators.crossover.sbx import SBX
from pymoo.operators.mutation.pm import PM
from pymoo.operators.repair.rounding import RoundingRepair
from pymoo.operators.sampling.rnd import FloatRandomSampling, IntegerRandomSampling
from pymoo.problems.static import StaticProblem
from pymoo.util.nds.non_dominated_sorting import NonDominatedSorting

Numbers = NDArray[np.float64]
Judge = Callable[[Numbers], tuple[Numbers, Numbers]]


@dataclass(frozen=True)
class Penalty:
    """Weight of a violation: `first` in the first generation, growing by equal ratios to `last`."""

    first: float = 1.0
    last: float = 1_000.0

    def weight(self, share: float) -> float:
        """Weight when a share 0..1 of the generations is done."""
        return float(self.first * (self.last / self.first) ** share)


@dataclass(frozen=True)
class Evolution:
    """Population, generations and operators. `mutation` is per gene; on average at least one of a child changes.

    Parents and children compete for every place (NSGA-II's own elitism), so the best fifth that the articles keep is
    always among the survivors.
    """

    population: int = 100
    generations: int = 30
    crossover: float = 0.9
    mutation: float = 0.1
    spread_crossover: float = 15.0
    spread_mutation: float = 20.0
    penalty: Penalty | None = None
    seed: int = 0


@dataclass(frozen=True)
class Evolved:
    """Every judged row in order: [n, variables], [n, objectives], [n, constraints]; `survivors` are the objectives of
    the last population (empty where there was none).
    """

    rows: Numbers
    objectives: Numbers
    violations: Numbers
    survivors: Numbers

    @property
    def front(self) -> NDArray[np.int64]:
        """Indices of allowed rows that no other allowed row beats."""
        allowed = np.flatnonzero((self.violations <= 0).all(axis=1))
        if not len(allowed):
            return allowed
        best = NonDominatedSorting().do(self.objectives[allowed], only_non_dominated_front=True)
        return np.asarray(allowed[best], np.int64)


def evolve(
    lower: Numbers,
    upper: Numbers,
    judge: Judge,
    settings: Evolution,
    *,
    objectives: int = 2,
    constraints: int = 0,
    integer: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Evolved:
    """Search the box `lower`..`upper` (both included). The same seed gives the same rows, draw for draw."""
    problem = Problem(
        n_var=len(lower), n_obj=objectives, n_ieq_constr=0 if settings.penalty else constraints,
        xl=lower, xu=upper, vtype=int if integer else float,
    )  # fmt: skip
    algorithm = _algorithm(settings, len(lower), integer=integer)
    algorithm.setup(problem, termination=("n_gen", settings.generations), seed=settings.seed, verbose=False)
    seen: list[tuple[Numbers, Numbers, Numbers]] = []
    generation = 0
    while algorithm.has_next():
        asked = algorithm.ask()
        if asked is None or not len(asked):
            break  # every row of a small box has been asked for
        rows = np.asarray(asked.get("X"), np.float64)
        rows = np.rint(rows) if integer else rows
        found, violations = judge(rows)
        seen.append((rows, found, violations))
        told = {"F": found, "G": violations} if constraints else {"F": found}
        if settings.penalty:
            weight = settings.penalty.weight(generation / max(1, settings.generations - 1))
            told = {"F": found + weight * np.clip(violations, 0, None).sum(axis=1, keepdims=True)}
        Evaluator().eval(StaticProblem(problem, **told), asked)
        algorithm.tell(infills=asked)
        generation += 1
        if progress is not None:
            progress(generation / settings.generations)
    rows, found, violations = (np.concatenate(parts) for parts in zip(*seen, strict=True))
    return Evolved(rows, found, violations, np.asarray(algorithm.pop.get("F"), np.float64))


def hypervolume(points: Numbers, reference: Numbers) -> float:
    """Volume that `points` [n, objectives] dominate below `reference`; 0 for none."""
    inside = points[(points < reference).all(axis=1)]
    return float(HV(ref_point=reference)(inside)) if len(inside) else 0.0


def _algorithm(settings: Evolution, variables: int, *, integer: bool) -> NSGA2:
    repair = {"vtype": float, "repair": RoundingRepair()} if integer else {}
    return NSGA2(
        pop_size=settings.population,
        sampling=IntegerRandomSampling() if integer else FloatRandomSampling(),
        crossover=SBX(prob=settings.crossover, eta=settings.spread_crossover, **repair),
        mutation=PM(
            prob=1.0, prob_var=max(settings.mutation, 1.0 / variables) if integer else 1.0 / variables,
            eta=settings.spread_mutation, **repair,
        ),
        eliminate_duplicates=True,
    )  # fmt: skip
