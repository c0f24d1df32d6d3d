"""Fine, faint texture laid over a scene, so that training sees detail that looks like noise but is none.

A network that learns to remove noise tends to remove pavement and cloth as well. The texture belongs to the scene: it
is in the target, it stands still, and only what codec and camera add to it is to be removed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flows.data.clips import Frames
from flows.data.degrade import blur

AMPLITUDES = (4.0, 8.0)
SIZES = (0.6, 1.2, 2.5)


def textured(frames: Frames, seed: int) -> Frames:
    """Frames [n, h, w, 3] with one still pattern added, a few LSB strong; deterministic by seed."""
    random = np.random.default_rng([seed, 0x7E])
    pattern = np.float32(random.uniform(*AMPLITUDES)) * _pattern(frames.shape[1:3], random)
    return np.asarray(np.clip(np.rint(frames.astype(np.float32) + pattern[None]), 0, 255), dtype=np.uint8)


def _pattern(size: tuple[int, ...], random: np.random.Generator) -> NDArray[np.float32]:
    """Zero mean, unit deviation, grey, at one of three grain sizes, stronger in some places than in others."""
    grain = blur(random.standard_normal((*size, 1)).astype(np.float32), float(random.choice(SIZES)))
    where = blur(random.standard_normal((*size, 1)).astype(np.float32), 12.0)
    grain *= np.clip(0.5 + where / (2 * where.std()), 0.0, 1.5)
    return np.asarray(grain / grain.std(), dtype=np.float32)
