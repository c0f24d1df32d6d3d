"""The range of a tensor whose 8-bit version tells least apart from it: least Kullback-Leibler divergence.

Source: S. Migacz, "8-bit inference with TensorRT", 2017; here for grids with a zero point, so that a range may end at
other distances below and above zero.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_CANDIDATES = 96
_SMALLEST = 1.0 / 16.0
_LEVELS = 255


def kl_range(centres: NDArray[np.float64], counts: NDArray[np.float64], low: float, high: float) -> tuple[float, float]:
    """(low, high) clipped at the distance from zero, of 96 tried, that has the least divergence."""
    peak = max(-low, high)
    if peak <= 0.0:
        return low, high
    tried = [
        (max(low, -peak * share), min(high, peak * share))
        for share in map(float, np.linspace(_SMALLEST, 1.0, _CANDIDATES))
    ]
    return min(reversed(tried), key=lambda ends: divergence(centres, counts, *ends))


def divergence(centres: NDArray[np.float64], counts: NDArray[np.float64], low: float, high: float) -> float:
    """KL(P || Q) in nats: P the histogram with what lies outside moved to the ends, Q after rounding to 256 levels.

    A level's mass is spread evenly over the bins that hold anything and round to it.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    scale = max((high - low) / _LEVELS, 1e-12)
    inside = (centres >= low) & (centres <= high)
    if not inside.any():
        return float("inf")
    first, last = int(np.argmax(inside)), len(inside) - 1 - int(np.argmax(inside[::-1]))
    whole = counts[first : last + 1].astype(np.float64)
    kept = whole.copy()
    whole[0] += counts[:first].sum()
    whole[-1] += counts[last + 1 :].sum()
    level = np.rint((centres[first : last + 1] - low) / scale).astype(np.intp).clip(0, _LEVELS)
    filled = whole > 0
    mass = np.bincount(level, kept, _LEVELS + 1)
    bins = np.bincount(level, filled.astype(np.float64), _LEVELS + 1)
    spread = np.where(filled, (mass / np.maximum(bins, 1.0))[level], 0.0)
    p, q = whole[filled] / whole.sum(), np.maximum(spread[filled], 1e-12)
    return float((p * np.log(p / (q / q.sum()))).sum())
