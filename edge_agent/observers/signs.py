"""Two plain measures of a picture that need no training: grain where it is flat, sharpness at its edges.

Both look at the middle of the picture, at most 320 x 192 of it, so that their cost does not grow with the frame.
Grain: the Laplacian difference mask of Immerkaer (1996), blind to planes, over 8 x 8 blocks, at the flattest quarter of
them, as a standard deviation of Gaussian noise in LSB. Sharpness: the steepest step in a block at full size over that
at half size, at the fifth of blocks with the steepest steps; about 1 at a hard edge, about 0.6 behind a soft lens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ROWS, COLUMNS = 192, 320
_BLOCK = 8
_FLATTEST, _STEEPEST = 0.25, 0.8
_FAINTEST = 2.0
"""Half-size steps below this many LSB are no edge."""

Luma = NDArray[np.float32]


@dataclass(frozen=True)
class Signs:
    """`grain` in LSB, `sharpness` as a ratio; NaN where the picture is too small or too flat to tell."""

    grain: float = math.nan
    sharpness: float = math.nan


def signs_of(pixels: NDArray[np.uint8]) -> Signs:
    """Measure one picture, u8 [rows, columns, 3]."""
    luma = _middle(pixels)
    if min(luma.shape) < 4 * _BLOCK:
        return Signs()
    return Signs(grain(luma), sharpness(luma))


def grain(luma: Luma) -> float:
    """Standard deviation of noise, LSB."""
    across = luma[:, :-2] - 2 * luma[:, 1:-1] + luma[:, 2:]
    mask = np.abs(across[:-2] - 2 * across[1:-1] + across[2:])
    blocks = _blocks(mask, _BLOCK).mean(axis=(1, 3))
    return float(np.quantile(blocks, _FLATTEST)) * math.sqrt(math.pi / 2) / 6.0


def sharpness(luma: Luma) -> float:
    """How much of the steepness of edges is left at full size; NaN for a picture without edges."""
    rows, columns = (side // 2 * 2 for side in luma.shape)
    half = luma[:rows, :columns].reshape(rows // 2, 2, columns // 2, 2).mean(axis=(1, 3))
    fine = _steepest(luma, _BLOCK)
    coarse = _steepest(half, _BLOCK // 2)
    rows, columns = min(fine.shape[0], coarse.shape[0]), min(fine.shape[1], coarse.shape[1])
    fine, coarse = fine[:rows, :columns], coarse[:rows, :columns]
    edges = (coarse >= np.quantile(coarse, _STEEPEST)) & (coarse >= _FAINTEST)
    return float(np.median(fine[edges] / coarse[edges])) if edges.any() else math.nan


def _middle(pixels: NDArray[np.uint8]) -> Luma:
    top, left = max(0, (pixels.shape[0] - ROWS) // 2), max(0, (pixels.shape[1] - COLUMNS) // 2)
    part = pixels[top : top + ROWS, left : left + COLUMNS].astype(np.float32)
    return np.asarray(0.299 * part[..., 0] + 0.587 * part[..., 1] + 0.114 * part[..., 2], np.float32)


def _steepest(luma: Luma, side: int) -> Luma:
    """Length of the steepest gradient in each block."""
    corner = luma[:-1, :-1]
    squares = np.square(luma[1:, :-1] - corner) + np.square(luma[:-1, 1:] - corner)
    return np.asarray(np.sqrt(_blocks(squares, side).max(axis=(1, 3))), np.float32)


def _blocks(values: Luma, side: int) -> Luma:
    rows, columns = values.shape[0] // side, values.shape[1] // side
    return values[: rows * side, : columns * side].reshape(rows, side, columns, side)
