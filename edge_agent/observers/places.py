"""The cells of every frame leave the device sorted by what they hold, not by where they lay.

The platform groups segments by mean and spread of each channel (`contracts.features.segment_vector`), which do not
depend on where a cell lay. The place is all that an attacker needs to draw a picture from cells, so it stays here.
Sorting needs no randomness that could be guessed, leaves exactly the multiset of cells, and makes the codes smaller.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint8]


def without_places(codes: Codes) -> Codes:
    """Codes (frames, rows, columns, channels) with the cells of each frame sorted; same shape, same cells."""
    count, rows, columns, channels = codes.shape
    cells = codes.reshape(count, rows * columns, channels)
    ordered = np.stack([frame[np.lexsort(frame.T[::-1])] for frame in cells])
    return np.ascontiguousarray(ordered.reshape(codes.shape))
