"""Where did the mean go? The directions that moved most, with their sign.

A verdict that says only "drift" cannot be acted on. Directions are rows of the observer's projection; the sign says
towards which of their ends the cohort moved, and the same direction on two days means the same kind of picture.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Direction:
    """Row `axis` of the projection, its signed `shift` in reference standard deviations of one frame, and the
    shift in standard errors, `z`.
    """

    axis: int
    shift: float
    z: float


def top_directions(gap: Array, covariance: Array, count: int) -> tuple[Direction, ...]:
    """Return the `count` largest components of a gap between means, largest first; equal ones by their row."""
    errors = np.sqrt(np.maximum(np.diag(covariance), np.finfo(np.float64).tiny))
    order = np.argsort(-np.abs(gap), kind="stable")[:count]
    return tuple(Direction(int(axis), float(gap[axis]), float(gap[axis] / errors[axis])) for axis in order)
