"""The net: features of the frame, joined with what the frame before left, one residual block, PixelShuffle.

[n, 3, h, w] and history [n, 8, h, w] -> [n, 3, 2h, 2w] and the next history. Float RGB in 0..1.
"""

from __future__ import annotations

from enum import Enum

import torch
from torch import Tensor, nn
from torch.nn import functional as F

FEATURES, HISTORY, POOL = 16, 8, 4


class History(Enum):
    """What reaches the next frame: all features, their means over 4 x 4 pixels, or nothing."""

    FULL = "full"
    POOLED = "pooled"
    NONE = "none"


class RecurrentNet(nn.Module):
    """One frame at a time; `history` says what training hands on."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self.history = history
        self.features = nn.Conv2d(3, FEATURES, 3, padding=1)
        self.join = nn.Conv2d(FEATURES + HISTORY, FEATURES, 3, padding=1)
        self.expand = nn.Conv2d(FEATURES, FEATURES, 3, padding=1)
        self.project = nn.Conv2d(FEATURES, FEATURES, 3, padding=1)
        self.keep = nn.Conv2d(FEATURES, HISTORY, 3, padding=1)
        self.tail = nn.Conv2d(FEATURES, 12, 3, padding=1)
        for conv in (self.project, self.tail):
            assert conv.bias is not None
            nn.init.zeros_(conv.bias)
            with torch.no_grad():
                conv.weight.mul_(0.1)

    def forward(self, x: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
        """The enlarged frame, not clamped, and what it leaves."""
        image, left, _ = self.traced(x, kept)
        return image, left

    def traced(self, x: Tensor, kept: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Also every activation by name, for calibration."""
        features = F.relu(self.features(x))
        joined = torch.cat([features, kept], dim=1)
        trunk = F.relu(self.join(joined))
        inner = F.relu(self.expand(trunk))
        branch = self.project(inner)
        total = branch + trunk
        left = F.relu(self.keep(total))
        tail = self.tail(total)
        image = F.pixel_shuffle(tail, 2) + F.interpolate(x, scale_factor=2.0, mode="nearest")
        seen = {"features": features, "trunk": trunk, "inner": inner, "branch": branch, "total": total}
        return image, left, {**seen, "history": left, "tail": tail}

    def handed(self, left: Tensor) -> Tensor:
        """What the next frame reads of what this one left."""
        if self.history is History.NONE:
            return torch.zeros_like(left)
        if self.history is History.FULL:
            return left
        return F.interpolate(F.avg_pool2d(left, POOL), scale_factor=float(POOL), mode="nearest")

    def first(self, x: Tensor) -> Tensor:
        """The history before the first frame."""
        return x.new_zeros(x.shape[0], HISTORY, *x.shape[2:])
