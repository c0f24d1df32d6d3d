"""Unit vectors with planted near-duplicates: clusters of a tenth of a radian, and single points as noise (-1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SPREAD = 0.1
SEED = 23


def sparse(count: int, width: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """60 % of the points in clusters of eight on average."""
    rng = np.random.default_rng(SEED)
    members = int(0.6 * count)
    return _planted(rng, count, width, rng.integers(0, members // 8, size=members))


def dense(count: int, width: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """95 % of the points in 200 clusters whose sizes follow Pareto's law of exponent 1."""
    rng = np.random.default_rng(SEED)
    sizes = rng.pareto(1.0, size=200) + 1.0
    return _planted(rng, count, width, rng.choice(200, size=int(0.95 * count), p=sizes / sizes.sum()))


def _planted(
    rng: np.random.Generator, count: int, width: int, owner: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    centres = _unit(rng.standard_normal((int(owner.max()) + 1, width), dtype=np.float32))
    points = rng.standard_normal((count, width), dtype=np.float32)
    points[: len(owner)] *= SPREAD / np.sqrt(width)
    points[: len(owner)] += centres[owner]
    truth = np.full(count, -1, dtype=np.int64)
    truth[: len(owner)] = owner
    order = rng.permutation(count)
    return _unit(points)[order], truth[order]


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows
