"""Exact duplicates counted once with a weight.

Segments of a still picture give the very same codes and so the very same vector. DBSCAN on such data holds
every neighbourhood in memory and dies; one row with a weight is the same to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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
    _, first, inverse, counts = np.unique(vectors, axis=0, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return Collapsed(vectors[first[order]], counts[order], place[inverse.reshape(-1)])
