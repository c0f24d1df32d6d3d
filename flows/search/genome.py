"""Networks as rows of integers: (depth, mid, kernel) of each searched stage, as positions in the space's choices.

Where the space has several trunks and every stage is searched, a last gene chooses the trunk; a stage that is inherited
fixes the trunk that it was trained with.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flows.tasks.vsr.architecture import Architecture, Space, Stage


class Genome:
    """Integers to architectures and back. Stages outside `affected` are those of `inherited`."""

    def __init__(self, space: Space, inherited: Architecture, affected: tuple[int, ...]) -> None:
        self.space, self.inherited, self.affected = space, inherited, affected
        self._choices = (space.depths, space.mids, space.kernels)
        self.elastic_trunk = len(space.trunks) > 1 and len(affected) == space.stages
        trunk = [len(space.trunks) - 1] if self.elastic_trunk else []
        self.upper = np.array([len(choice) - 1 for _ in affected for choice in self._choices] + trunk)
        self.length = len(self.upper)
        self.size = int(np.prod(self.upper + 1))

    def rows(self) -> NDArray[np.float64]:
        """Every row there is, [size, length]."""
        return np.indices(tuple(int(count) + 1 for count in self.upper)).reshape(self.length, -1).T.astype(np.float64)

    def decode(self, genes: NDArray[np.int64]) -> Architecture:
        """The network of one row; a row without any block stands for `inherited`."""
        stages = list(self.inherited.stages)
        for position, index in enumerate(self.affected):
            picked = genes[3 * position : 3 * position + 3]
            depth, mid, kernel = (choice[int(gene)] for choice, gene in zip(self._choices, picked, strict=True))
            stages[index] = (
                Stage(depth, mid, kernel) if depth else Stage(0, min(self.space.mids), min(self.space.kernels))
            )
        trunk = self.space.trunks[int(genes[-1])] if self.elastic_trunk else self.inherited.trunk
        architecture = Architecture(trunk, tuple(stages))
        return architecture if architecture.depth else self.inherited

    def holds(self, architecture: Architecture) -> bool:
        """Whether some genes decode to this network."""
        trunks = self.space.trunks if self.elastic_trunk else (self.inherited.trunk,)
        return architecture.trunk in trunks and all(
            (stage.depth in self.space.depths and stage.mid in self.space.mids and stage.kernel in self.space.kernels)
            if index in self.affected
            else stage == self.inherited.stages[index]
            for index, stage in enumerate(architecture.stages)
        )

    def encode(self, architecture: Architecture) -> list[float]:
        """Genes of a network that `holds` accepts."""
        stages = [architecture.stages[index] for index in self.affected]
        genes = [
            float(choice.index(value))
            for stage in stages
            for choice, value in zip(self._choices, (stage.depth, stage.mid, stage.kernel), strict=True)
        ]
        return [*genes, float(self.space.trunks.index(architecture.trunk))] if self.elastic_trunk else genes
