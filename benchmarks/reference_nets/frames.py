"""Frames for the reference nets: smooth areas, edges and a little noise, so that codes spread as in video."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_CELL = 24


def smooth_frame(height: int, width: int, seed: int) -> npt.NDArray[np.uint8]:
    """One uint8 [height, width, 3] frame; the same arguments give the same frame."""
    random = np.random.default_rng([seed, height, width])
    rows, cols = height // _CELL + 2, width // _CELL + 2
    coarse = random.uniform(16, 240, (rows, cols, 3))
    image = _enlarged(coarse, height, width)
    top, left = (int(random.integers(0, max(1, size // 2))) for size in (height, width))
    image[top : top + height // 3, left : left + width // 3] += random.uniform(-60, 60, 3)  # an object with edges
    image += random.normal(0, 2.0, image.shape)
    return np.asarray(np.clip(np.rint(image), 0, 255), np.uint8)


def _enlarged(coarse: npt.NDArray[np.float64], height: int, width: int) -> npt.NDArray[np.float64]:
    """Bilinear, one coarse cell for _CELL pixels."""
    y, x = np.arange(height) / _CELL, np.arange(width) / _CELL
    y0, x0 = y.astype(int), x.astype(int)
    fy, fx = (y - y0)[:, None, None], (x - x0)[None, :, None]
    upper = coarse[y0][:, x0] * (1 - fx) + coarse[y0][:, x0 + 1] * fx
    lower = coarse[y0 + 1][:, x0] * (1 - fx) + coarse[y0 + 1][:, x0 + 1] * fx
    return np.asarray(upper * (1 - fy) + lower * fy)
