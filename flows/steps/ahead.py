"""Ask for the judgement of networks many at once, before the search asks for them one by one.

A search judges in batches, and which networks are in a batch follows from the batches before alone. So it is gone
through once with a judge that has each batch done at once, wherever jobs are done; the search itself then finds every
network known. It decides nothing here: were a network missed, the search would ask for that one by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from flows.search.evolution import Numbers
from flows.search.genome import Genome
from flows.search.guided import guided
from flows.search.judged import Judged, Latency, Quality
from flows.search.nsga import SearchSettings
from flows.tasks.vsr.architecture import Architecture, Space

Many = Callable[[Sequence[Architecture]], None]


def judge_ahead(
    space: Space,
    inherited: Architecture,
    affected: tuple[int, ...],
    quality: Quality,
    latency: Latency,
    settings: SearchSettings,
    first: Sequence[Architecture],
    many: Many,
) -> None:
    """Go through `flows.search.nsga.search` with its surrogate; `many` is told each batch before it is needed."""
    genome = Genome(space, inherited, affected or tuple(range(space.stages)))
    judged = _InBatches(genome, quality, latency, settings.limit, many)
    for architecture in first:
        judged.candidate(architecture)
    inner = replace(settings.evolution(), population=settings.breadth, generations=settings.depth)
    guided(judged, inner, rounds=settings.generations, batch=settings.population, progress=None)


class _InBatches(Judged):
    def __init__(self, genome: Genome, quality: Quality, latency: Latency, limit: float, many: Many) -> None:
        super().__init__(genome, quality, latency, limit)
        self._many = many

    def judge(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        """As always, after the whole batch was asked for."""
        self._many([self.genome.decode(row.astype(np.int64)) for row in rows])
        return super().judge(rows)
