"""Quantised twins of the float networks. Set to evaluation, their forward pass is integer inference, bit for bit.

Pinned grids: the input, the residual image before and after DepthToSpace (1/255, zero point 128) and the output live
on the pixel grid, so that the last addition adds whole pixel steps and rounds once.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flows.quality.net import QualityNet
from flows.quant.integer import added, requantized
from flows.quant.lsq import PIXEL_SCALE, ActivationQuantizer, QuantConv2d
from flows.tasks.vsr.history import unrolled
from flows.tasks.vsr.net import ResidualBlock, VsrNet, anchor, first_history, space_to_depth


class QuantBlock(nn.Module):
    """Residual block: three grids (inside, branch, sum). A `rectified` one has a ReLU behind the sum."""

    def __init__(self, block: ResidualBlock) -> None:
        super().__init__()
        self.rectified = block.rectified
        self.expand, self.project = QuantConv2d(block.expand), QuantConv2d(block.project)
        self.mid_grid, self.branch_grid, self.sum_grid = (ActivationQuantizer() for _ in range(3))

    def forward(self, x: Tensor, source: ActivationQuantizer) -> Tensor:
        """x on the grid `source`; the result is on `sum_grid`."""
        middle = through(self.expand, x, source.scale, self.mid_grid, relu=True)
        branch = through(self.project, middle, self.mid_grid.scale, self.branch_grid)
        if exact(self.project, self.sum_grid):
            return added(branch, self.branch_grid, x, source, self.sum_grid, relu=self.rectified)
        total = x + branch
        return torch.as_tensor(self.sum_grid(F.relu(total) if self.rectified else total))


class QuantHistory(nn.Module):
    """What a net keeps from frame to frame: the kept features' grid, and those of its branch and of the sum."""

    def __init__(self, net: VsrNet) -> None:
        super().__init__()
        self.join, self.keep = QuantConv2d(net.join), QuantConv2d(net.keep)
        self.kept_grid, self.branch_grid, self.sum_grid = (ActivationQuantizer() for _ in range(3))

    def joined(self, y: Tensor, source: ActivationQuantizer, kept: Tensor) -> Tensor:
        """Features on `source` and what was kept, on `kept_grid`; the sum is on `sum_grid`."""
        branch = through(self.join, kept, self.kept_grid.scale, self.branch_grid)
        if exact(self.join, self.sum_grid):
            return added(branch, self.branch_grid, y, source, self.sum_grid)
        return torch.as_tensor(self.sum_grid(y + branch))

    def left(self, y: Tensor, source: ActivationQuantizer) -> Tensor:
        """What the next frame may read."""
        return through(self.keep, y, source.scale, self.kept_grid, relu=True)


class QuantVsrNet(nn.Module):
    """Quantised `VsrNet`; with history, `frames` consecutive images of a batch are one clip."""

    def __init__(self, net: VsrNet) -> None:
        super().__init__()
        self.architecture, self.frames = net.architecture, net.frames
        self.head, self.tail = QuantConv2d(net.head), QuantConv2d(net.tail)
        blocks = []
        for block in net.blocks:
            assert isinstance(block, ResidualBlock)
            blocks.append(QuantBlock(block))
        self.blocks = nn.ModuleList(blocks)
        self.history = QuantHistory(net) if net.architecture.history else None
        self.input_grid = ActivationQuantizer(PIXEL_SCALE, 0, pinned=True)
        self.head_grid = ActivationQuantizer()
        self.tail_grid = ActivationQuantizer(PIXEL_SCALE, 128, pinned=True)
        self.output_grid = ActivationQuantizer(PIXEL_SCALE, 0, pinned=True)

    def forward(self, x: Tensor) -> Tensor:
        """Float RGB [n, 3, h, w] -> pixel grid [n, 3, 2h, 2w]."""
        return self.step(x, None)[0] if self.history is None else unrolled(self.step, x, self.frames)

    def step(self, x: Tensor, kept: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """One frame and what the frame before kept, as in `VsrNet.step`."""
        x = self.input_grid(x)
        y = through(
            self.head, space_to_depth(x, self.architecture.packing), self.input_grid.scale, self.head_grid, relu=True
        )
        grid = self.head_grid
        if self.history is not None:
            before = first_history(y, self.architecture.history) if kept is None else kept
            y, grid = self.history.joined(y, grid, before), self.history.sum_grid
        for block in self.blocks:
            assert isinstance(block, QuantBlock)
            y, grid = block(y, grid), block.sum_grid
        residual = through(self.tail, y, grid.scale, self.tail_grid)
        image = torch.as_tensor(self.output_grid(F.pixel_shuffle(residual, self.architecture.spreading) + anchor(x)))
        return image, None if self.history is None else self.history.left(y, grid)


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
            assert isinstance(conv, QuantConv2d)
            y, scale = through(conv, y, scale, grid, relu=True), grid.scale
        return y, through(self.embed, y, scale, self.embed_grid, relu=True)


def through(conv: QuantConv2d, x: Tensor, scale: Tensor, grid: ActivationQuantizer, *, relu: bool = False) -> Tensor:
    """Convolution of x, which lies on a grid of `scale`, onto `grid`."""
    if exact(conv, grid):
        return requantized(*conv.accumulated(x, scale), grid, relu=relu)
    linear = conv(x, scale)
    return torch.as_tensor(grid(F.relu(linear) if relu else linear))


def exact(conv: QuantConv2d, grid: ActivationQuantizer) -> bool:
    """Whether to compute as the device does: not while training or calibrating, nor with quantisation switched off."""
    return not conv.training and conv.enabled and grid.enabled and grid.observer is None
