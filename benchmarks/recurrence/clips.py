"""Frames of the licensed corpus, split by scene, with a noisy half-size version: history has something to give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flows.data.clips import shrink
from flows.data.corpus import Split, default_corpus, read

Frames = NDArray[np.uint8]
NOISE_LSB = 10.0
ROWS, COLS = 64, 96


@dataclass(frozen=True)
class Scene:
    """Consecutive frames: `lr` [n, h, w, 3] noisy, `hr` [n, 2h, 2w, 3] clean."""

    name: str
    lr: Frames
    hr: Frames


def scenes(split: Split, frames: int) -> list[Scene]:
    """Every clip of one side, shrunk to about 320 pixels and cut to a multiple of eight around its middle."""
    found = []
    for number, clip in enumerate(default_corpus().of(split)):
        hr = read(clip, scale=max(1, round(clip.width / 320)), limit=frames)
        if len(hr) >= 8:
            found.append(_scene(clip.id, hr, number))
    return found


def _scene(name: str, hr: Frames, seed: int) -> Scene:
    rows, cols = (min(size, side) for size, side in zip(hr.shape[1:3], (2 * ROWS, 2 * COLS), strict=True))
    top, left = (hr.shape[1] - rows) // 2, (hr.shape[2] - cols) // 2
    hr = np.ascontiguousarray(hr[:, top : top + rows, left : left + cols])
    random = np.random.default_rng([seed, 17])
    clean = shrink(hr, 2)
    noisy = np.rint(clean + random.normal(0, NOISE_LSB, clean.shape))
    return Scene(name, np.clip(noisy, 0, 255).astype(np.uint8), hr)


def batch(
    material: Sequence[Scene], random: np.random.Generator, size: int, length: int, side: int
) -> tuple[Frames, Frames]:
    """`size` crops of `length` consecutive frames: lr [length, size, side, side, 3] and hr of twice the side."""
    low, high = [], []
    for _ in range(size):
        scene = material[int(random.integers(len(material)))]
        start = int(random.integers(len(scene.lr) - length + 1))
        y, x = (int(random.integers(extent - side + 1)) for extent in scene.lr.shape[1:3])
        low.append(scene.lr[start : start + length, y : y + side, x : x + side])
        high.append(scene.hr[start : start + length, 2 * y : 2 * (y + side), 2 * x : 2 * (x + side)])
    return np.stack(low, axis=1), np.stack(high, axis=1)
