"""Naturalness by the moments of locally normalised luma, as NIQE looks at pictures (Mittal et al. 2013).

Luma minus its local mean, over its local deviation, has a distribution that noise, blur and blocking bend in ways of
their own. NIQE fits generalised Gaussians to it; moments say the same and can be differentiated. The loss compares the
moments of an output with those of the truth, so it needs no model of "all natural pictures".
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

_RADIUS = 3
_SIGMA = 7.0 / 6.0
_STABLE = 1.0 / 255.0
_LUMA = (0.299, 0.587, 0.114)
_NEIGHBOURS = ((0, 1), (1, 0), (1, 1), (1, -1))
MOMENTS = 2 * (3 + 2 * len(_NEIGHBOURS))


def normalised_luma(x: Tensor) -> Tensor:
    """[n, 3, h, w] in 0..1 -> [n, 1, h - 6, w - 6], luma in units of its local deviation (Gaussian window of 7 x 7)."""
    luma = (x * torch.tensor(_LUMA, device=x.device).view(1, 3, 1, 1)).sum(dim=1, keepdim=True)
    window = _window(x.device)
    mean = F.conv2d(luma, window)
    inner = luma[..., _RADIUS:-_RADIUS, _RADIUS:-_RADIUS]
    variance = (F.conv2d(luma.square(), window) - mean.square()).clamp_min(0.0)
    return (inner - mean) / ((variance + 1e-8).sqrt() + _STABLE)


def moments(x: Tensor) -> Tensor:
    """[n, 3, h, w] in 0..1, sides of 24 or more -> [n, MOMENTS]: spread, tails and neighbours' products, two scales."""
    if min(x.shape[-2:]) < 24:
        raise ValueError(f"moments need sides of 24 or more, got {tuple(x.shape[-2:])}")
    return torch.cat([_moments_of(normalised_luma(scaled)) for scaled in (x, F.avg_pool2d(x, 2))], dim=1)


def moment_loss(output: Tensor, truth: Tensor) -> Tensor:
    """Mean absolute difference of the moments of both batches [n, 3, h, w]; scalar, 0 for equal pictures."""
    return (moments(output) - moments(truth)).abs().mean()


def _moments_of(m: Tensor) -> Tensor:
    second = m.square().mean(dim=(1, 2, 3))
    first = m.abs().mean(dim=(1, 2, 3))
    peaked = first.square() / second.clamp_min(1e-6)
    found = [second, first, peaked]
    for down, right in _NEIGHBOURS:
        product = m * torch.roll(m, (-down, -right), dims=(2, 3))
        found += [product.mean(dim=(1, 2, 3)), product.abs().mean(dim=(1, 2, 3))]
    return torch.stack(found, dim=1)


def _window(device: torch.device) -> Tensor:
    axis = torch.arange(-_RADIUS, _RADIUS + 1, device=device).float()
    line = torch.exp(-axis.square() / (2 * _SIGMA**2))
    kernel = torch.outer(line, line)
    return (kernel / kernel.sum())[None, None]
