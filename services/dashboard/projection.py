"""Vectors in a plane: the two directions along which they differ most (principal components), ready to be drawn.

Both axes have one scale, so distances in the picture are comparable; `share` says how much of the spread it shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT, MARGIN = 640.0, 360.0, 26.0


@dataclass(frozen=True)
class Plane:
    """Points inside 0..WIDTH x 0..HEIGHT; `scale` is picture units per unit of distance."""

    points: tuple[tuple[float, float], ...]
    share: float
    scale: float


def plane(vectors: Sequence[Sequence[float]]) -> Plane:
    """Project n vectors of one length; the same vectors always give the same picture."""
    if not len(vectors):
        return Plane((), 1.0, 1.0)
    matrix = np.nan_to_num(np.asarray(vectors, dtype=np.float64), posinf=0.0, neginf=0.0)
    centred = matrix - matrix.mean(axis=0)
    _left, sizes, axes = np.linalg.svd(centred, full_matrices=False)
    total = float((sizes**2).sum())
    flat = centred @ _turned(axes[:2]).T
    if flat.shape[1] < 2:
        flat = np.pad(flat, ((0, 0), (0, 2 - flat.shape[1])))
    low, high = flat.min(axis=0), flat.max(axis=0)
    room = np.array([WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN])
    span = high - low
    scale = float(min((room[span > 1e-9] / span[span > 1e-9]).tolist(), default=1.0))
    placed = (flat - (low + high) / 2) * scale + np.array([WIDTH, HEIGHT]) / 2
    share = float((sizes[:2] ** 2).sum() / total) if total > 0 else 1.0
    return Plane(tuple((float(x), float(y)) for x, y in placed), share, scale)


def _turned(axes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Axes with a sign that does not hang on the library: the largest entry is positive."""
    largest = np.abs(axes).argmax(axis=1)
    signs = np.sign(axes[np.arange(len(axes)), largest])
    return np.asarray(axes * np.where(signs == 0, 1.0, signs)[:, None])
