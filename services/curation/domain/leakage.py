"""Does a training set hold what models are judged by?

A training vector leaks when it lies within eps of an evaluation vector of the same clip: the net would be judged on
what it was shown. Near ones of other clips are counted only: two clips under one condition resemble each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ROWS = 1_024


@dataclass(frozen=True)
class Leak:
    """Training vector `row` lies at `distance` from an evaluation vector of the same clip."""

    row: int
    clip: str
    distance: float


@dataclass(frozen=True)
class Leakage:
    """leaks: the nearest of the same clip for each leaking row. near_others: rows near an evaluation vector of another
    clip only.
    """

    leaks: tuple[Leak, ...]
    near_others: int


def leakage(
    training: NDArray[np.float32],
    clips: Sequence[str],
    evaluation: NDArray[np.float32],
    evaluation_clips: Sequence[str],
    eps: float,
) -> Leakage:
    """Compare training vectors (n x d) with evaluation vectors (m x d); clips go by row."""
    if len(training) == 0 or len(evaluation) == 0:
        return Leakage((), 0)
    judged_by = np.asarray(evaluation_clips)
    leaks, others = [], 0
    for first, distance in _distances(training, evaluation):
        mine = np.asarray(clips[first : first + len(distance)])[:, None] == judged_by
        nearest = np.where(mine, distance, np.inf).min(axis=1)
        leaking = nearest <= eps
        others += int(np.count_nonzero(~leaking & (distance <= eps).any(axis=1)))
        found = np.flatnonzero(leaking).tolist()
        leaks += [Leak(first + row, clips[first + row], float(nearest[row])) for row in found]
    return Leakage(tuple(leaks), others)


def _distances(
    training: NDArray[np.float32], evaluation: NDArray[np.float32]
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield the first row and the distances of some rows to all evaluation vectors."""
    wide = evaluation.astype(np.float64)
    squares = np.einsum("ij,ij->i", wide, wide)
    for first in range(0, len(training), ROWS):
        rows = training[first : first + ROWS].astype(np.float64)
        gap = np.einsum("ij,ij->i", rows, rows)[:, None] + squares - 2.0 * rows @ wide.T
        yield first, np.sqrt(np.maximum(gap, 0.0))
