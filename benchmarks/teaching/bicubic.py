"""PIL's bicubic kernel, down for the training pairs and up as the peer that every network is held against."""

from __future__ import annotations

import numpy as np
from PIL import Image

from flows.data.clips import Frames

SCALE = 2


def halved(frames: Frames) -> Frames:
    """[n, h, w, 3] -> [n, h/2, w/2, 3]; sides even."""
    return _resized(frames, frames.shape[2] // SCALE, frames.shape[1] // SCALE)


def doubled(frames: Frames) -> Frames:
    """[n, h, w, 3] -> [n, 2h, 2w, 3]."""
    return _resized(frames, frames.shape[2] * SCALE, frames.shape[1] * SCALE)


def _resized(frames: Frames, columns: int, rows: int) -> Frames:
    size = (columns, rows)
    return np.stack([np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BICUBIC)) for image in frames])
