"""Small picture work of the agent: enlarge without a model, fit a frame to a profile, measure motion."""

from __future__ import annotations

from collections.abc import Sequence

import av
import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
MOTION_STEP = 4


def resize(frame: Pixels, height: int, width: int) -> Pixels:
    """Return a u8 RGB frame scaled by bicubic interpolation."""
    if frame.shape[:2] == (height, width):
        return frame
    picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")
    scaled = picture.reformat(width=width, height=height, interpolation="BICUBIC")
    return np.asarray(scaled.to_ndarray(), dtype=np.uint8)


def enlarge(frame: Pixels, factor: int = 2) -> Pixels:
    """Return the frame enlarged without a model: what is shown when no program may run."""
    return resize(frame, frame.shape[0] * factor, frame.shape[1] * factor)


def fit(frame: Pixels, sizes: Sequence[tuple[int, int]]) -> Pixels:
    """Return the frame in one of `sizes` (height, width): as it is, or scaled to the size nearest in area."""
    height, width = frame.shape[:2]
    if not sizes or (height, width) in sizes:
        return frame
    nearest = min(sizes, key=lambda size: abs(size[0] * size[1] - height * width))
    return resize(frame, *nearest)


def motion_between(before: Pixels | None, frame: Pixels) -> float:
    """Return the mean absolute difference of two frames in LSB, on every fourth pixel; 0 without a
    predecessor.
    """
    if before is None or before.shape != frame.shape:
        return 0.0
    a = before[::MOTION_STEP, ::MOTION_STEP].astype(np.int16)
    return float(np.abs(a - frame[::MOTION_STEP, ::MOTION_STEP]).mean())
