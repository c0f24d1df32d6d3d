"""Quantised twins of the float networks. Their forward pass equals integer inference up to rounding ties.

Pinned grids: the input, the residual image before and after DepthToSpace (1/255, zero point 128) and the output live
on the pixel grid, so that the last addition adds whole pixel steps and rounds once.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flows.quality.net import QualityNet
from flows.quant.lsq import PIXEL_SCALE, ActivationQuantizer, QuantConv2d
from flows.tasks.vsr.architecture import D2S_BLOCK
from flows.tasks.vsr.net import ResidualBlock, VsrNet, anchor, space_to_depth


class QuantBlock(nn.Module):
    """Residual block: three grids (inside, branch, sum)."""

    def __init__(self, block: ResidualBlock) -> None:
        super().__init__()
        self.expand, self.project = QuantConv2d(block.expand), QuantConv2d(block.project)
        self.mid_grid, self.branch_grid, self.sum_grid = (ActivationQuantizer() for _ in range(3))

    def forward(self, x: Tensor, scale: Tensor) -> Tensor:
        """x on a grid of `scale`; the result is on `sum_grid`."""
        middle = self.mid_grid(F.relu(self.expand(x, scale)))
        branch = self.branch_grid(self.project(middle, self.mid_grid.scale))
        return torch.as_tensor(self.sum_grid(x + branch))


class QuantVsrNet(nn.Module):
    """Quantised `VsrNet`."""

    def __init__(self, net: VsrNet) -> None:
        super().__init__()
        self.architecture = net.architecture
        self.head, self.tail = QuantConv2d(net.head), QuantConv2d(net.tail)
        blocks = []
        for block in net.blocks:
            assert isinstance(block, ResidualBlock)
            blocks.append(QuantBlock(block))
        self.blocks = nn.ModuleList(blocks)
        self.input_grid = ActivationQuantizer(PIXEL_SCALE, 0, pinned=True)
        self.head_grid = ActivationQuantizer()
        self.tail_grid = ActivationQuantizer(PIXEL_SCALE, 128, pinned=True)
        self.output_grid = ActivationQuantizer(PIXEL_SCALE, 0, pinned=True)

    def forward(self, x: Tensor) -> Tensor:
        """Float RGB [n, 3, h, w] -> pixel grid [n, 3, 2h, 2w]."""
        x = self.input_grid(x)
        y = self.head_grid(F.relu(self.head(space_to_depth(x), self.input_grid.scale)))
        scale = self.head_grid.scale
        for block in self.blocks:
            assert isinstance(block, QuantBlock)
            y, scale = block(y, scale), block.sum_grid.scale
        residual = self.tail_grid(self.tail(y, scale))
        return torch.as_tensor(self.output_grid(F.pixel_shuffle(residual, D2S_BLOCK) + anchor(x)))


class QuantQualityNet(nn.Module):
    """Quantised `QualityNet`."""

    def __init__(self, net: QualityNet) -> None:
        super().__init__()
        self.convs = nn.ModuleList(QuantConv2d(conv) for conv in net.convs if isinstance(conv, nn.Conv2d))
        last = len(net.convs) - 1
        self.grids = nn.ModuleList(
            ActivationQuantizer(PIXEL_SCALE, 0, pinned=True) if index == last else ActivationQuantizer()
            for index in range(len(net.convs))
        )
        self.embed = QuantConv2d(net.embed)
        self.input_grid = ActivationQuantizer(PIXEL_SCALE, 0, pinned=True)
        self.embed_grid = ActivationQuantizer()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Float RGB [n, 3, h, w] -> features [n, 16, h/32, w/32], embedding [n, 256, h/32, w/32]."""
        y, scale = self.input_grid(x), self.input_grid.scale
        for conv, grid in zip(self.convs, self.grids, strict=True):
            assert isinstance(grid, ActivationQuantizer)
            y, scale = grid(F.relu(conv(y, scale))), grid.scale
        return y, self.embed_grid(F.relu(self.embed(y, scale)))
