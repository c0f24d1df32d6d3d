"""Decoders that draw a picture out of codes.

`SetDecoder` takes cells in any order: they look at each other, then 64 places of the picture look at the cells; that is
a jigsaw solver that is learned. `MapDecoder` takes cells in their places. Both end in the same small painter, which
draws 64 x 64; finer detail than that cannot be won from 8 x 8 cells, and a smooth enlargement is the best guess.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

CELLS = 8
CHANNELS = 16
WIDTH = 96


class Painter(nn.Module):
    """Places [n, 96, 8, 8] to pictures [n, 3, 64, 64]."""

    def __init__(self) -> None:
        super().__init__()
        widths = (WIDTH, 64, 32, 16)
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in pairwise(widths))
        self.last = nn.Conv2d(widths[-1], 3, 3, padding=1)
        nn.init.constant_(self.last.bias, 0.5)  # type: ignore[arg-type]  # a convolution with a bias has one

    def forward(self, x: Tensor) -> Tensor:
        """Paint."""
        for conv in self.convs:
            x = F.relu(conv(F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)))
        return torch.as_tensor(self.last(x))


class MapDecoder(nn.Module):
    """Codes [n, frames, 64, 16] in their places to pictures [n, 3, 64, 64]."""

    def __init__(self, frames: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(frames * CHANNELS, WIDTH, 3, padding=1)
        self.second = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.painter = Painter()

    def forward(self, codes: Tensor) -> Tensor:
        """Draw."""
        n, frames = codes.shape[:2]
        maps = codes.reshape(n, frames, CELLS, CELLS, CHANNELS).permute(0, 1, 4, 2, 3).flatten(1, 2)
        x = F.relu(self.first(maps))
        return torch.as_tensor(self.painter(x + F.relu(self.second(x))))


class SetDecoder(nn.Module):
    """Codes [n, frames, 64, 16] in any order to pictures [n, 3, 64, 64]."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(CHANNELS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
        self.whole = nn.Linear(2 * CHANNELS, WIDTH)
        self.places = nn.Parameter(0.5 * torch.randn(CELLS * CELLS, WIDTH))
        self.among = nn.ModuleList(Block() for _ in range(2))
        self.across = nn.ModuleList(Block() for _ in range(2))
        self.painter = Painter()

    def forward(self, codes: Tensor) -> Tensor:
        """Draw."""
        cells = codes.flatten(1, 2)
        summary = self.whole(torch.cat([cells.mean(1), cells.std(1)], 1))[:, None]
        tokens = self.embed(cells) + summary
        for block in self.among:
            tokens = block(tokens, tokens)
        x = self.places[None] + summary
        for block in self.across:
            x = block(x, tokens)
        return torch.as_tensor(self.painter(x.transpose(1, 2).reshape(len(codes), WIDTH, CELLS, CELLS)))


class Block(nn.Module):
    """Attention and a small perceptron, both added to their input."""

    def __init__(self) -> None:
        super().__init__()
        self.look = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.think = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor, others: Tensor) -> Tensor:
        """x looks at others."""
        seen, _ = self.look(self.before(x), others, others, need_weights=False)
        x = x + seen
        return torch.as_tensor(x + self.think(self.between(x)))
