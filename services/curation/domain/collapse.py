"""Exact duplicates counted once with a weight.

Segments of a still picture give the very same codes and so the very same vector. DBSCAN on such data holds
every neighbourhood in memory and dies; one row with a weight is the same to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SEED = 17
CHUNK = 65_536


@dataclass(frozen=True)
class Collapsed:
    """Distinct rows in the order of their first appearance, how often each came, and where each row went."""

    rows: NDArray[np.float32]
    weights: NDArray[np.int64]
    index: NDArray[np.int64]


def collapse(vectors: NDArray[np.float32]) -> Collapsed:
    """Collapse equal rows of `vectors` (n x d). `rows[index]` gives `vectors` back."""
    if len(vectors) == 0:
        return Collapsed(vectors, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    _, first, inverse, counts = np.unique(_keys(vectors), return_index=True, return_inverse=True, return_counts=True)
    if len(first) == len(vectors):
        return Collapsed(vectors, np.ones(len(vectors), dtype=np.int64), np.arange(len(vectors), dtype=np.int64))
    if not _same(vectors, first[inverse]):  # two different rows share a key
        whole = np.unique(vectors, axis=0, return_index=True, return_inverse=True, return_counts=True)
        first, inverse, counts = whole[1], whole[2].reshape(-1), whole[3]
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return Collapsed(vectors[first[order]], counts[order], place[inverse])


def _keys(vectors: NDArray[np.float32]) -> NDArray[np.uint64]:
    """A 64-bit key of each row; equal rows have equal keys (0.0 equals -0.0)."""
    factors = np.random.default_rng(SEED).integers(1, 2**63, size=vectors.shape[1], dtype=np.uint64) * 2 + 1
    keys = np.empty(len(vectors), dtype=np.uint64)
    for start in range(0, len(vectors), CHUNK):
        bits = (vectors[start : start + CHUNK] + np.float32(0)).view(np.uint32).astype(np.uint64)
        bits ^= bits >> np.uint64(15)
        keys[start : start + CHUNK] = (bits * factors).sum(axis=1, dtype=np.uint64)
    return keys


def _same(vectors: NDArray[np.float32], other: NDArray[np.int64]) -> bool:
    """Whether each row equals the row it is taken for."""
    parts = range(0, len(vectors), CHUNK)
    return all(np.array_equal(vectors[s : s + CHUNK], vectors[other[s : s + CHUNK]], equal_nan=True) for s in parts)
