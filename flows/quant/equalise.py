"""Cross-layer equalisation: inner channels of a block get alike ranges, and the network's function stays the same.

ReLU lets a positive factor pass, so a channel may leave one convolution smaller and enter the next with larger weights.
Source: M. Nagel et al., "Data-free quantization through weight equalization and bias correction", 2019, arXiv
1906.04721, section 4.1. Factors here are powers of two: products and sums then round alike, so outputs are equal bit
for bit.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from flows.tasks.vsr.net import ResidualBlock, VsrNet

_LARGEST = 8.0


def equalised(net: VsrNet) -> VsrNet:
    """A copy of `net` whose blocks are equalised; `net` is left as it is."""
    made = copy.deepcopy(net)
    with torch.no_grad():
        for block in made.blocks:
            assert isinstance(block, ResidualBlock)
            _equalise(block)
    return made


def ranges(block: ResidualBlock) -> tuple[Tensor, Tensor]:
    """Largest weight into and out of each inner channel, [mid] each."""
    return (
        block.expand.weight.detach().abs().amax(dim=(1, 2, 3)),
        block.project.weight.detach().abs().amax(dim=(0, 2, 3)),
    )


def _equalise(block: ResidualBlock) -> None:
    into, out = ranges(block)
    usable = (into > 0) & (out > 0)
    wished = torch.where(usable, 0.5 * (torch.log2(into) - torch.log2(out)), torch.zeros_like(into))
    factor = torch.exp2(wished.round().clamp(-_LARGEST, _LARGEST))
    assert block.expand.bias is not None
    block.expand.weight.div_(factor.view(-1, 1, 1, 1))
    block.expand.bias.div_(factor)
    block.project.weight.mul_(factor.view(1, -1, 1, 1))
