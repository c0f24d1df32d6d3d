"""How given vectors become stored rows: centred, scaled to norms of at most 1, turned to principal axes.

Turning changes no distance, but lets the first coordinates alone tell most pairs apart. The scale is a power of two.
Invariant: what float32 loses of -distance^2/2 between stored rows is at most `rounding(terms)`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.curation.domain.scan.limits import ScanLimits

Array = NDArray[np.float64]
Floats = NDArray[np.float32]
Places = NDArray[np.int64]
Mask = NDArray[np.bool_]

UNIT = 2.0**-23
SEED = 5


@dataclass(frozen=True)
class Frame:
    """Stored row = (vector - `mean`) times `scale`, turned by `axes` (d x d)."""

    mean: Array
    scale: float
    axes: Array

    def apply(self, vectors: Floats) -> Array:
        """Return stored coordinates (n x d) before rounding."""
        turned: Array = ((vectors.astype(np.float64) - self.mean) * self.scale) @ self.axes
        return turned


def rounding(terms: int) -> float:
    """Bound of the float32 error of -distance^2/2 between rows of norm 1 and `terms` coordinates."""
    return (terms + 8) * UNIT


def frame_of(vectors: Floats, limits: ScanLimits) -> Frame:
    """Choose the frame of some points."""
    parts = [vectors[first : first + limits.rows] for first in range(0, len(vectors), limits.rows)]
    mean = np.sum([part.sum(axis=0, dtype=np.float64) for part in parts], axis=0) / len(vectors)
    largest = max(float(np.linalg.norm(part - mean, axis=1).max()) for part in parts)
    scale = 2.0 ** -np.ceil(np.log2(largest)) if largest > 0 else 1.0
    sample = (drawn(vectors, limits.sample) - mean) * scale
    _, axes = np.linalg.eigh(sample.T @ sample)
    return Frame(mean, float(scale), np.ascontiguousarray(axes[:, ::-1]))


def drawn(vectors: Floats, most: int) -> Floats:
    """Return at most so many of the vectors, evenly drawn, the same every time."""
    if len(vectors) <= most:
        return vectors
    return vectors[np.random.default_rng(SEED).choice(len(vectors), most, replace=False)]


def short_terms(rows: Array, eps: float, limits: ScanLimits) -> int:
    """The fewest leading coordinates that alone hold apart nearly all far pairs of some stored rows."""
    other = np.random.default_rng(SEED).permutation(len(rows))
    reached = np.cumsum((rows - rows[other]) ** 2, axis=1)
    apart = reached[reached[:, -1] > eps * eps]
    for terms in limits.terms:
        if terms >= rows.shape[1]:
            break
        if np.count_nonzero(apart[:, terms - 1] <= eps * eps) <= limits.unclear_share * len(rows):
            return terms
    return int(rows.shape[1])
