"""DISTS (Ding et al. 2020, arXiv 2004.07728): structure and texture over VGG16 features; 0 for equal pictures.

Unlike a pixel metric it forgives resampled texture, which a network that sharpens noise away would otherwise be fined
for.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from flows.perceptual.features import VggFeatures
from flows.perceptual.weights import load

_MEAN = (0.485, 0.456, 0.406)
_DEVIATION = (0.229, 0.224, 0.225)
_STABLE = 1e-6
_CHANNELS = (3, 64, 128, 256, 512, 512)


class Dists(nn.Module):
    """The metric; frozen, differentiable in both pictures."""

    mean: Tensor
    deviation: Tensor
    alpha: Tensor
    beta: Tensor

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__()
        self.features = VggFeatures(load("vgg16", folder))
        heads = load("dists-heads", folder)
        alpha, beta = (torch.from_numpy(heads[name]).float().reshape(1, -1) for name in ("alpha", "beta"))
        total = alpha.sum() + beta.sum()
        self.register_buffer("alpha", alpha / total)
        self.register_buffer("beta", beta / total)
        self.register_buffer("mean", torch.tensor(_MEAN).view(1, 3, 1, 1))
        self.register_buffer("deviation", torch.tensor(_DEVIATION).view(1, 3, 1, 1))

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Two batches of float RGB in 0..1, [n, 3, h, w] -> [n] distances."""
        similar = torch.zeros(len(a), device=a.device)
        position = 0
        for left, right, count in zip(self._maps(a), self._maps(b), _CHANNELS, strict=True):
            piece = slice(position, position + count)
            position += count
            texture, structure = _similarity(left, right)
            similar = similar + (self.alpha[:, piece] * texture + self.beta[:, piece] * structure).sum(dim=1)
        return 1.0 - similar

    def _maps(self, x: Tensor) -> list[Tensor]:
        return [x, *self.features((x - self.mean) / self.deviation)]


def _similarity(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    mean_l, mean_r = left.mean(dim=(2, 3)), right.mean(dim=(2, 3))
    texture = (2 * mean_l * mean_r + _STABLE) / (mean_l.square() + mean_r.square() + _STABLE)
    var_l = (left - mean_l[..., None, None]).square().mean(dim=(2, 3))
    var_r = (right - mean_r[..., None, None]).square().mean(dim=(2, 3))
    both = (left * right).mean(dim=(2, 3)) - mean_l * mean_r
    return texture, (2 * both + _STABLE) / (var_l + var_r + _STABLE)
