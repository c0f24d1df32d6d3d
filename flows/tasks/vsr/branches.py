"""Re-parametrisation: while training, a kernel is the sum of itself and of smaller kernels at its centre.

The sum is linear, so folding it back is exact and the trained network has the shape it always had. It works on weights,
not on feature maps (Hu et al. 2022, arXiv 2204.00826), so a step costs next to nothing more. The centre taps move
faster under Adam, and a 3x3 slice of a 5x5 kernel has taps that are its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

_NAME = "weight"


class CentreBranches(nn.Module):
    """Adds kernels of 1x1 (and 3x3 in a 5x5) to the centre of a weight; they start at zero."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        outputs, inputs, kernel, _ = weight.shape
        self.branches = nn.ParameterList(
            nn.Parameter(torch.zeros(outputs, inputs, size, size)) for size in range(1, kernel, 2)
        )

    def forward(self, weight: Tensor) -> Tensor:
        """The effective weight."""
        for branch in self.branches:
            margin = (weight.shape[-1] - branch.shape[-1]) // 2
            weight = weight + F.pad(branch, [margin] * 4)
        return weight


def branch(net: nn.Module) -> None:
    """Give every convolution its branches; what the network computes stays the same."""
    for conv in _convolutions(net):
        if not parametrize.is_parametrized(conv, _NAME):
            parametrize.register_parametrization(conv, _NAME, CentreBranches(conv.weight))


def fold(net: nn.Module) -> None:
    """Put the branches back into the kernels: plain convolutions that compute the same, bit for bit."""
    for conv in _convolutions(net):
        if parametrize.is_parametrized(conv, _NAME):
            parametrize.remove_parametrizations(conv, _NAME, leave_parametrized=True)


def parts_of(conv: nn.Conv2d) -> list[Tensor]:
    """The tensors [outputs, inputs, k, k] whose centred sum is the weight: the weight alone without branches."""
    if not parametrize.is_parametrized(conv, _NAME):
        return [conv.weight]
    chain: Any = conv.parametrizations[_NAME]  # type: ignore[index]  # Any: torch types it as a module or a tensor
    return [chain.original, *(part for one in chain for part in one.branches)]


def weight_of(conv: nn.Conv2d) -> Tensor:
    """The weight that the convolution computes with, made anew (never a cached one)."""
    first, *rest = parts_of(conv)
    weight = first
    for part in rest:
        weight = weight + F.pad(part, [(first.shape[-1] - part.shape[-1]) // 2] * 4)
    return weight


def _convolutions(net: nn.Module) -> Iterator[nn.Conv2d]:
    for module in list(net.modules()):
        if isinstance(module, nn.Conv2d):
            yield module
