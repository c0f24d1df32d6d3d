"""Scatter: the cells of every frame leave the device in an order that nobody can know.

The platform groups segments by mean and spread of each channel (`contracts.features.segment_vector`), which do not
depend on where a cell lay. The order is all that an attacker needs to draw a picture from cells, so it stays here: each
frame gets an order of its own, drawn from the operating system's randomness and forgotten at once. What is left is the
multiset of cells, sorted by nothing.
"""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint8]


def scattered(codes: Codes, random: np.random.Generator | None = None) -> Codes:
    """Codes (frames, rows, columns, channels) with the cells of each frame shuffled; same shape, same cells."""
    source = random or np.random.default_rng(secrets.randbits(256))
    count, rows, columns, channels = codes.shape
    cells = codes.reshape(count, rows * columns, channels)
    mixed = np.stack([frame[source.permutation(len(frame))] for frame in cells])
    return np.ascontiguousarray(mixed.reshape(codes.shape))
