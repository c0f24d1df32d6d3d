"""NSGA-II over the affected stages: quality on held-aside training pairs against emulated latency.

The genome holds (depth, mid, kernel) of each affected stage; every other stage is inherited. Quality comes from the
supernet's slice, latency from the operator table; the worst ratio to the production model over all device classes
and profiles is the second objective, and exceeding the gate's limit is a constraint. Each network is evaluated once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from flows.errors import FlowError
from flows.search.evolution import Evolution, evolve
from flows.search.genome import Genome
from flows.search.guided import guided
from flows.search.judged import Candidate, Judged, Latency, Quality
from flows.tasks.vsr.architecture import Architecture, Space

__all__ = ["Candidate", "SearchResult", "SearchSettings", "choose", "pareto", "search"]
TIE_DB = 0.1


@dataclass(frozen=True)
class SearchSettings:
    """Networks judged at once (`population`) and how often (`generations`), operators, largest latency ratio allowed.

    With a surrogate each generation is proposed by an evolution of `breadth` x `depth` on predicted quality and true
    latency; without it a generation is one of NSGA-II itself.
    """

    population: int = 16
    generations: int = 6
    crossover: float = 0.9
    mutation: float = 0.1
    limit: float = 1.04
    seed: int = 0
    surrogate: bool = True
    breadth: int = 100
    depth: int = 30

    def evolution(self) -> Evolution:
        """As the search over integers takes them: wide steps, because each gene has few values."""
        return Evolution(
            self.population, self.generations, self.crossover, self.mutation,
            spread_crossover=3.0, spread_mutation=3.0, seed=self.seed,
        )  # fmt: skip


@dataclass(frozen=True)
class SearchResult:
    """Everything evaluated, the Pareto front and the choice: best quality within the limit."""

    chosen: Candidate
    front: tuple[Candidate, ...]
    evaluated: tuple[Candidate, ...]
    space_size: int
    searched: tuple[int, ...]
    surrogate_error: float | None = None


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
    genome = Genome(space, inherited, affected or tuple(range(space.stages)))
    judged = Judged(genome, quality, latency, chosen.limit)
    for architecture in (inherited, *also):
        judged.candidate(architecture)
    evolution, error = chosen.evolution(), None
    if chosen.surrogate:
        inner = replace(evolution, population=chosen.breadth, generations=chosen.depth)
        error = guided(judged, inner, rounds=chosen.generations, batch=chosen.population, progress=progress)
    else:
        upper = genome.upper.astype(np.float64)
        evolve(np.zeros(genome.length), upper, judged.judge, evolution, constraints=1, integer=True, progress=progress)
    evaluated = judged.candidates
    feasible = [candidate for candidate in evaluated if candidate.latency_ratio <= chosen.limit]
    if not feasible:
        fastest = min(evaluated, key=lambda candidate: candidate.latency_ratio)
        raise FlowError(
            f"no network within {chosen.limit:.2f}x of the production latency "
            f"(fastest found {fastest.latency_ratio:.2f}x); allow smaller stages in the space or raise the limit"
        )
    return SearchResult(choose(feasible), pareto(evaluated), evaluated, genome.size, genome.affected, error)


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
