"""NSGA-II over the affected stages: quality on held-aside training pairs against emulated latency.

The genome holds (depth, mid, kernel) of each affected stage; every other stage is inherited. Quality comes from the
supernet's slice, latency from the operator table; the worst ratio to the production model over all device classes
and profiles is the second objective, and exceeding the gate's limit is a constraint. Each network is evaluated once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flows.errors import FlowError
from flows.search.evolution import Evolution, Numbers, evolve
from flows.tasks.vsr.architecture import Architecture, Space, Stage

TIE_DB = 0.1
Quality = Callable[[Architecture], float]
Latency = Callable[[Architecture], float]


@dataclass(frozen=True)
class SearchSettings:
    """Population, generations and operators of the search; `limit` is the largest latency ratio allowed."""

    population: int = 16
    generations: int = 6
    crossover: float = 0.9
    mutation: float = 0.1
    limit: float = 1.04
    seed: int = 0

    def evolution(self) -> Evolution:
        """As the search over integers takes them: wide steps, because each gene has few values."""
        return Evolution(
            self.population, self.generations, self.crossover, self.mutation,
            spread_crossover=3.0, spread_mutation=3.0, seed=self.seed,
        )  # fmt: skip


@dataclass(frozen=True)
class Candidate:
    """One evaluated network: dB on the validation pairs, latency relative to the production model."""

    architecture: Architecture
    psnr: float
    latency_ratio: float

    @property
    def genes(self) -> str:
        """Stages as text, for tables."""
        return " ".join(f"{s.depth}x{s.mid}k{s.kernel}" for s in self.architecture.stages)


@dataclass(frozen=True)
class SearchResult:
    """Everything evaluated, the Pareto front and the choice: best quality within the limit."""

    chosen: Candidate
    front: tuple[Candidate, ...]
    evaluated: tuple[Candidate, ...]
    space_size: int
    searched: tuple[int, ...]


def search(
    space: Space,
    inherited: Architecture,
    affected: tuple[int, ...],
    quality: Quality,
    latency: Latency,
    settings: SearchSettings | None = None,
    progress: Callable[[float], None] | None = None,
    also: Sequence[Architecture] = (),
) -> SearchResult:
    """Search the affected stages of `inherited`; the networks in `also` are judged whatever the search draws.

    Raises FlowError when no network meets the latency limit.
    """
    chosen = settings or SearchSettings()
    genome = _Genome(space, inherited, affected or tuple(range(space.stages)))
    problem = _Problem(genome, quality, latency, chosen.limit)
    for architecture in (inherited, *also):
        problem.seed(architecture)
    evolve(
        np.zeros(genome.length), genome.upper.astype(np.float64), problem.judge, chosen.evolution(),
        constraints=1, integer=True, progress=progress,
    )  # fmt: skip
    evaluated = tuple(problem.memory.values())
    feasible = [candidate for candidate in evaluated if candidate.latency_ratio <= chosen.limit]
    if not feasible:
        fastest = min(evaluated, key=lambda candidate: candidate.latency_ratio)
        raise FlowError(
            f"no network within {chosen.limit:.2f}x of the production latency "
            f"(fastest found {fastest.latency_ratio:.2f}x); allow smaller stages in the space or raise the limit"
        )
    return SearchResult(choose(feasible), pareto(evaluated), evaluated, genome.size, genome.affected)


def choose(feasible: list[Candidate]) -> Candidate:
    """The largest network among those that the supernet cannot tell from the best.

    A slice of a supernet understates width that was little trained, so within `TIE_DB` more weights win: they cost
    nothing that the latency limit does not already bound.
    """
    best = max(candidate.psnr for candidate in feasible)
    near = [candidate for candidate in feasible if candidate.psnr >= best - TIE_DB]
    return max(near, key=lambda candidate: (candidate.architecture.parameters(), candidate.psnr))


def pareto(candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """Candidates that no other beats in both quality and latency, fastest first."""
    front: list[Candidate] = []
    best = -np.inf
    for candidate in sorted(candidates, key=lambda c: (c.latency_ratio, -c.psnr)):
        if candidate.psnr > best:
            front.append(candidate)
            best = candidate.psnr
    return tuple(front)


class _Genome:
    """Integers to architectures and back."""

    def __init__(self, space: Space, inherited: Architecture, affected: tuple[int, ...]) -> None:
        self.space, self.inherited, self.affected = space, inherited, affected
        self._choices = (space.depths, space.mids, space.kernels)
        self.upper = np.array([len(choice) - 1 for _ in affected for choice in self._choices])
        self.length = len(self.upper)
        self.size = int(np.prod(self.upper + 1))

    def decode(self, genes: NDArray[np.int64]) -> Architecture:
        stages = list(self.inherited.stages)
        for position, index in enumerate(self.affected):
            picked = genes[3 * position : 3 * position + 3]
            depth, mid, kernel = (choice[int(gene)] for choice, gene in zip(self._choices, picked, strict=True))
            stages[index] = (
                Stage(depth, mid, kernel) if depth else Stage(0, min(self.space.mids), min(self.space.kernels))
            )
        architecture = Architecture(self.inherited.trunk, tuple(stages))
        return architecture if architecture.depth else replace(architecture, stages=self.inherited.stages)


class _Problem:
    """Judges rows of genes; each network once."""

    def __init__(self, genome: _Genome, quality: Quality, latency: Latency, limit: float) -> None:
        self._genome, self._quality, self._latency, self._limit = genome, quality, latency, limit
        self.memory: dict[Architecture, Candidate] = {}

    def seed(self, architecture: Architecture) -> None:
        self._candidate(architecture)

    def judge(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        found = [self._candidate(self._genome.decode(row.astype(np.int64))) for row in rows]
        objectives = np.array([[-candidate.psnr, candidate.latency_ratio] for candidate in found])
        return objectives, np.array([[candidate.latency_ratio - self._limit] for candidate in found])

    def _candidate(self, architecture: Architecture) -> Candidate:
        known = self.memory.get(architecture)
        if known is None:
            known = Candidate(architecture, self._quality(architecture), self._latency(architecture))
            self.memory[architecture] = known
        return known
