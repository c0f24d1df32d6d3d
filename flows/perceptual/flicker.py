"""Flicker where nothing moves: how much more the output changes from frame to frame than the truth does.

Pixels that move in the truth are left out (their change is content), which a webcam with a fixed background leaves
plenty of. On near-static calls warping by optical flow did not lower the frame difference, so motion is masked, not
followed.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

MOTION_LSB = 4.0
"""A pixel moves when its truth, blurred over 3 x 3, changes by more than this between two frames."""


def still_mask(truth: Tensor) -> Tensor:
    """[n, t, 3, h, w] in 0..1 -> [n, t - 1, 1, h, w]: one where the truth stands still between two frames."""
    change = (truth[:, 1:] - truth[:, :-1]).mean(dim=2).abs()
    blurred = torch.nn.functional.avg_pool2d(change, 3, stride=1, padding=1, count_include_pad=False)
    return (blurred <= MOTION_LSB / 255.0).to(truth.dtype)[:, :, None]


def temporal_loss(output: Tensor, truth: Tensor) -> Tensor:
    """Mean absolute difference of frame-to-frame changes where the truth stands still; scalar, differentiable.

    Both [n, t, 3, h, w] in 0..1 with t >= 2. Zero when everything moves.
    """
    if output.shape != truth.shape or output.shape[1] < 2:
        raise ValueError(f"need two equal clips of two frames or more, got {tuple(output.shape)}, {tuple(truth.shape)}")
    mask = still_mask(truth)
    difference = ((output[:, 1:] - output[:, :-1]) - (truth[:, 1:] - truth[:, :-1])).abs()
    return (difference * mask).sum() / (3.0 * mask.sum()).clamp_min(1.0)


def still_flicker(output: np.ndarray, truth: np.ndarray) -> float:
    """The same on 8-bit clips [t, h, w, 3], in LSB; 0 for a single frame."""
    if len(output) < 2:
        return 0.0
    clips = [
        torch.from_numpy(np.ascontiguousarray(clip)).permute(0, 3, 1, 2)[None].float() / 255 for clip in (output, truth)
    ]
    return 255.0 * float(temporal_loss(*clips))
