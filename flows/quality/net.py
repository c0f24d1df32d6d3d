"""The quality net: five stride-2 convolutions to 16 channels at 1/32, then a 1x1 convolution to a 256-d embedding.

Devices cut the 16-channel map to 4 bits for segments and pool the embedding for drift and the quality score.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WIDTHS = (3, 8, 16, 24, 32, 16)
FEATURES = WIDTHS[-1]
EMBEDDING = 256


class QualityNet(nn.Module):
    """Float quality net on RGB in 0..1."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, stride=2, padding=1) for a, b in pairwise(WIDTHS))
        self.embed = nn.Conv2d(FEATURES, EMBEDDING, 1)
        for conv in (*self.convs, self.embed):
            assert isinstance(conv, nn.Conv2d)
            assert conv.bias is not None
            nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
            nn.init.constant_(conv.bias, 0.01)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[n, 3, h, w] -> features [n, 16, h/32, w/32], embedding [n, 256, h/32, w/32], both >= 0.

        Features end at 1, the top of the grid on which devices store them.
        """
        for conv in self.convs:
            x = F.relu(conv(x))
        x = x.clamp(max=1.0)
        return x, torch.as_tensor(F.relu(self.embed(x)))
