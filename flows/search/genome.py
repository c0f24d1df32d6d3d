"""Networks as rows of integers: (depth, mid, kernel) of each searched stage, as positions in the space's choices.

Where the space has several trunks, or nets with and without history, and every stage is searched, further genes choose
them; a stage that is inherited fixes the trunk and the history that it was trained with.
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
        self.elastic_history = len(space.histories) > 1 and len(affected) == space.stages
        trunk = [len(space.trunks) - 1] if self.elastic_trunk else []
        kept = [len(space.histories) - 1] if self.elastic_history else []
        self.upper = np.array([len(choice) - 1 for _ in affected for choice in self._choices] + trunk + kept)
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
        place = 3 * len(self.affected)
        trunk = self.space.trunks[int(genes[place])] if self.elastic_trunk else self.inherited.trunk
        kept = self.space.histories[int(genes[-1])] if self.elastic_history else self.inherited.history
        architecture = self.space.network(trunk, tuple(stages), kept)
        return architecture if architecture.depth else self.inherited

    def holds(self, architecture: Architecture) -> bool:
        """Whether some genes decode to this network."""
        trunks = self.space.trunks if self.elastic_trunk else (self.inherited.trunk,)
        histories = self.space.histories if self.elastic_history else (self.inherited.history,)
        return (
            architecture.trunk in trunks
            and architecture.history in histories
            and all(
                (
                    stage.depth in self.space.depths
                    and stage.mid in self.space.mids
                    and stage.kernel in self.space.kernels
                )
                if index in self.affected
                else stage == self.inherited.stages[index]
                for index, stage in enumerate(architecture.stages)
            )
        )

    def encode(self, architecture: Architecture) -> list[float]:
        """Genes of a network that `holds` accepts."""
        stages = [architecture.stages[index] for index in self.affected]
        genes = [
            float(choice.index(value))
            for stage in stages
            for choice, value in zip(self._choices, (stage.depth, stage.mid, stage.kernel), strict=True)
        ]
        if self.elastic_trunk:
            genes.append(float(self.space.trunks.index(architecture.trunk)))
        if self.elastic_history:
            genes.append(float(self.space.histories.index(architecture.history)))
        return genes
