"""The hand-made network that the benches measure against: plain 3x3 convolutions at full resolution, nearest anchor.

C16 N6 means 16 channels and six convolutions in all (head, four inner ones, tail); it has 11,468 parameters.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flows.tasks.vsr.architecture import SCALE
from flows.tasks.vsr.net import anchor

CHANNELS, LAYERS = 16, 6


class PlainNet(nn.Module):
    """`layers` convolutions of `channels`, ReLU between them, PixelShuffle(2) and the enlarged input added."""

    def __init__(self, channels: int = CHANNELS, layers: int = LAYERS) -> None:
        super().__init__()
        self.channels, self.layers = channels, layers
        widths = [3, *[channels] * (layers - 1), 3 * SCALE**2]
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in pairwise(widths))
        for index, conv in enumerate(self.convs):
            assert isinstance(conv, nn.Conv2d)
            assert conv.bias is not None
            nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
            nn.init.zeros_(conv.bias)
            if index == layers - 1:
                with torch.no_grad():
                    conv.weight.mul_(0.1)

    def forward(self, x: Tensor) -> Tensor:
        """Float RGB [n, 3, h, w] -> [n, 3, 2h, 2w], not clamped."""
        y = x
        for conv in self.convs[:-1]:
            y = F.relu(conv(y))
        return F.pixel_shuffle(self.convs[-1](y), SCALE) + anchor(x)

    def parameter_count(self) -> int:
        """Weights and biases."""
        return sum(value.numel() for value in self.parameters())
