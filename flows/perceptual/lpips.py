"""LPIPS 0.1 on AlexNet (Zhang et al. 2018, arXiv 1801.03924): distance of two pictures as people see it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from flows.perceptual.features import AlexNetFeatures
from flows.perceptual.weights import load

_SHIFT = (-0.030, -0.088, -0.188)
_SCALE = (0.458, 0.448, 0.450)
SMALLEST = 35
"""Shorter sides leave AlexNet's last map empty."""


class Lpips(nn.Module):
    """The metric; frozen, differentiable in both pictures."""

    shift: Tensor
    scale: Tensor

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__()
        self.features = AlexNetFeatures(load("alexnet", folder))
        heads = load("lpips-heads", folder)
        self.heads = [torch.from_numpy(heads[f"lin{index}.model.1.weight"]).float() for index in range(5)]
        self.register_buffer("shift", torch.tensor(_SHIFT).view(1, 3, 1, 1))
        self.register_buffer("scale", torch.tensor(_SCALE).view(1, 3, 1, 1))

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Two batches of float RGB in 0..1, [n, 3, h, w] -> [n] distances. Raises ValueError for tiny pictures."""
        if min(a.shape[-2:]) < SMALLEST:
            raise ValueError(f"LPIPS needs sides of {SMALLEST} or more, got {tuple(a.shape[-2:])}")
        total = torch.zeros(len(a), device=a.device)
        pairs = zip(self.features(self._normal(a)), self.features(self._normal(b)), self.heads, strict=True)
        for left, right, head in pairs:
            difference = (_unit(left) - _unit(right)).square()
            total = total + (difference * head.to(a.device)).sum(dim=1).mean(dim=(1, 2))
        return total

    def _normal(self, x: Tensor) -> Tensor:
        return (2.0 * x - 1.0 - self.shift) / self.scale


def lpips_of(metric: Lpips, output: np.ndarray, target: np.ndarray, batch: int = 4) -> np.ndarray:
    """Distances of 8-bit frames, [n, h, w, 3] twice -> [n]."""
    found = []
    with torch.inference_mode():
        for start in range(0, len(output), batch):
            pair = [_floats(frames[start : start + batch]) for frames in (output, target)]
            found.append(metric(*pair).numpy())
    return np.concatenate(found)


def _floats(frames: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(frames)).permute(0, 3, 1, 2).float() / 255.0


def _unit(features: Tensor) -> Tensor:
    return features / (features.square().sum(dim=1, keepdim=True).sqrt() + 1e-10)
