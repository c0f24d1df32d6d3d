"""Start a new network from an old one without changing what it computes (Net2Net, Chen et al. 2016).

Blocks that both networks have are copied; wider blocks get extra channels whose outgoing weights are zero; extra
blocks are identities. Where the new network is narrower or shallower, the most important channels and the leading
blocks are kept, and the function changes as little as that allows.
"""

from __future__ import annotations

import torch
from torch import nn

from flows.tasks.vsr.architecture import Architecture
from flows.tasks.vsr.net import ResidualBlock, VsrNet


def inherit(parent: VsrNet, architecture: Architecture) -> VsrNet:
    """A network of `architecture` with the parent's weights; equal output when nothing had to be cut.

    Raises ValueError when trunk, number of stages or resolution differ: then nothing can be inherited block by block.
    """
    old = parent.architecture
    if (old.trunk, len(old.stages), old.fine) != (architecture.trunk, len(architecture.stages), architecture.fine):
        raise ValueError(
            f"cannot inherit {architecture.to_json()} from {old.to_json()}: trunk, stages and resolution must agree"
        )
    net = VsrNet(architecture)
    with torch.no_grad():
        for name in ("head", "tail"):
            getattr(net, name).load_state_dict(getattr(parent, name).state_dict())
        _copy_history(parent, net)
        _copy_stages(parent, net)
    return net


def _copy_history(parent: VsrNet, net: VsrNet) -> None:
    """The parent's history where both have the same; a new one joins with weights of zero, so nothing changes."""
    if not net.architecture.history:
        return
    if net.architecture.history == parent.architecture.history:
        net.join.load_state_dict(parent.join.state_dict())
        net.keep.load_state_dict(parent.keep.state_dict())
    else:
        nn.init.zeros_(net.join.weight)


def _copy_stages(parent: VsrNet, net: VsrNet) -> None:
    old_start = new_start = 0
    for old, new in zip(parent.architecture.stages, net.architecture.stages, strict=True):
        for place in range(new.depth):
            target = net.blocks[new_start + place]
            assert isinstance(target, ResidualBlock)
            nn.init.zeros_(target.project.weight)
            if place < old.depth:
                source = parent.blocks[old_start + place]
                assert isinstance(source, ResidualBlock)
                _copy_block(source, target)
        old_start, new_start = old_start + old.depth, new_start + new.depth


def _copy_block(source: ResidualBlock, target: ResidualBlock) -> None:
    strength = source.expand.weight.abs().sum(dim=(1, 2, 3)) * source.project.weight.abs().sum(dim=(0, 2, 3))
    count = min(source.expand.out_channels, target.expand.out_channels)
    kept = torch.argsort(strength, descending=True)[:count].sort().values
    _place(source.expand.weight[kept], target.expand.weight[:count])
    _place(source.project.weight[:, kept], target.project.weight[:, :count])
    _bias(target.expand)[:count] = _bias(source.expand)[kept]
    _bias(target.project).copy_(_bias(source.project))


def _bias(conv: nn.Conv2d) -> torch.Tensor:
    assert conv.bias is not None
    return conv.bias


def _place(source: torch.Tensor, target: torch.Tensor) -> None:
    """Copy kernels centre to centre: 3x3 into 5x5 is padded by zeros, 5x5 into 3x3 loses its rim."""
    margin = (target.shape[-1] - source.shape[-1]) // 2
    if margin >= 0:
        target.zero_()
        end = margin + source.shape[-1]
        target[..., margin:end, margin:end] = source
    else:
        target.copy_(source[..., -margin:margin, -margin:margin])
