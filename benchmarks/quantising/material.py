"""Patches and judged frames of the learning bench, step by step the same for every quantiser.

`benchmarks.teaching.material` says where the recordings are and who is held out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from benchmarks.teaching.anchor import BATCH, PATCH
from benchmarks.teaching.material import judge_sets, training_set
from flows.data.pairs import Pair, PairSet
from flows.tasks.batches import to_batch

_LATER, _CALIBRATION = 1, 2
"""Streams of random numbers beside the start's own."""

CALIBRATION_BATCHES = 24


@dataclass(frozen=True)
class Material:
    """Pairs to learn from."""

    pairs: PairSet

    def batch(self, seed: int, step: int) -> tuple[Tensor, Tensor]:
        """Input and target of one training step; the same for everyone who asks with the same seed and step."""
        random = np.random.default_rng([seed, _LATER, step])
        return to_batch(*self.pairs.patches(BATCH, PATCH, random))

    def calibration(self, seed: int) -> list[Tensor]:
        """Inputs of the training side that all quantisers calibrate on."""
        random = np.random.default_rng([seed, _CALIBRATION])
        return [to_batch(*self.pairs.patches(BATCH, PATCH, random))[0] for _ in range(CALIBRATION_BATCHES)]


def learned() -> Material:
    """Everything that may be learned from. Raises CorpusError when the recordings are missing."""
    return Material(training_set())


def judged() -> tuple[Pair, ...]:
    """The person whom nothing was trained on, every tenth frame."""
    return judge_sets()["person"].pairs
