"""Picture quality as numbers: PSNR, flicker, and how far two integer outputs lie apart.

Pictures are u8 arrays `[n, h, w, 3]`. PSNR is in dB over RGB at peak 255, one value a frame, averaged over frames,
and capped at 100 dB so that identical pictures stay finite. Flicker is the mean absolute change of the error signal
between neighbouring frames of one clip, in LSB: a model that is wrong in a steady way does not flicker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PEAK = 255.0
CAP_DB = 100.0

Pictures = NDArray[np.uint8]


class ShapeMismatch(ValueError):
    """Two things that must have the same shape do not."""


def psnr(pictures: Pictures, truth: Pictures) -> float:
    """Mean over frames of the per-frame PSNR in dB."""
    _same_shape(pictures, truth)
    return float(np.mean([_frame_psnr(ours, theirs) for ours, theirs in zip(pictures, truth, strict=True)]))


def flicker(pictures: Pictures, truth: Pictures, clip: NDArray[np.integer]) -> float | None:
    """Mean |error[t] - error[t-1]| in LSB within clips; None where no clip has two frames."""
    _same_shape(pictures, truth)
    total, count = 0.0, 0
    for before, after in _neighbours(clip):
        change = _error(pictures[after], truth[after]) - _error(pictures[before], truth[before])
        total += float(np.abs(change).sum(dtype=np.float64))
        count += change.size
    return total / count if count else None


def nearest(pictures: Pictures, factor: int = 2) -> Pictures:
    """Nearest-neighbour enlargement, the anchor that a model must not fall under."""
    return pictures.repeat(factor, axis=1).repeat(factor, axis=2)


@dataclass(frozen=True)
class Disagreement:
    """Two integer outputs side by side: the largest difference in LSB and the share of values that differ."""

    largest: int
    share: float
    values: int


def disagreement(left: NDArray[np.uint8], right: NDArray[np.uint8]) -> Disagreement:
    """Compare two u8 arrays of the same shape value by value."""
    _same_shape(left, right)
    apart = np.abs(left.astype(np.int16) - right.astype(np.int16))
    return Disagreement(int(apart.max(initial=0)), float(np.count_nonzero(apart)) / max(1, apart.size), apart.size)


def merge(parts: list[Disagreement]) -> Disagreement:
    """Disagreement over all parts together."""
    values = sum(part.values for part in parts)
    differing = sum(part.share * part.values for part in parts)
    return Disagreement(max((part.largest for part in parts), default=0), differing / max(1, values), values)


def _frame_psnr(picture: Pictures, truth: Pictures) -> float:
    error = float(np.mean(np.square(_error(picture, truth)), dtype=np.float64))
    return CAP_DB if error == 0.0 else min(CAP_DB, float(10.0 * np.log10(PEAK * PEAK / error)))


def _error(picture: Pictures, truth: Pictures) -> NDArray[np.float32]:
    return picture.astype(np.float32) - truth.astype(np.float32)


def _neighbours(clip: NDArray[np.integer]) -> Iterator[tuple[int, int]]:
    for frame in range(1, len(clip)):
        if clip[frame] == clip[frame - 1]:
            yield frame - 1, frame


def _same_shape(left: NDArray[np.uint8], right: NDArray[np.uint8]) -> None:
    if left.shape != right.shape:
        raise ShapeMismatch(f"outputs of shape {left.shape} cannot be compared with {right.shape}")
