"""AlexNet and VGG16 up to their last convolution, for perceptual distances. Frozen; lists of features out.

Krizhevsky 2014 (arXiv 1404.5997) and Simonyan and Zisserman 2014 (arXiv 1409.1556), with torchvision's weights.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

_ALEXNET = ((4, 2), (1, 2), (1, 1), (1, 1), (1, 1))
_ALEXNET_POOLED = (1, 2)
_VGG_STAGES = (2, 2, 3, 3, 3)


class AlexNetFeatures(nn.Module):
    """The five rectified convolutions of AlexNet; `arrays` as they lie in the cache."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        self.convs = _convs(arrays, "AlexNet_0", [padding for _, padding in _ALEXNET], [step for step, _ in _ALEXNET])

    def forward(self, x: Tensor) -> list[Tensor]:
        """[n, 3, h, w] normalised RGB, sides of 35 or more -> five feature maps."""
        found = []
        for index, conv in enumerate(self.convs):
            if index in _ALEXNET_POOLED:
                x = F.max_pool2d(x, 3, 2)
            x = F.relu(conv(x))
            found.append(x)
        return found


class VggFeatures(nn.Module):
    """The last rectified convolution of each of VGG16's five stages, with L2 pooling between (Ding et al. 2020)."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        self.convs = _convs(arrays, "VGG16_0", [1] * 13, [1] * 13)
        window = torch.hann_window(5, periodic=False)[1:-1]
        kernel = torch.outer(window, window)
        self.register_buffer("kernel", (kernel / kernel.sum())[None, None])

    def forward(self, x: Tensor) -> list[Tensor]:
        """[n, 3, h, w] normalised RGB, sides of 16 or more -> five feature maps."""
        found, position = [], 0
        for stage, depth in enumerate(_VGG_STAGES):
            if stage:
                x = self._pooled(x)
            for conv in self.convs[position : position + depth]:
                x = F.relu(conv(x))
            position += depth
            found.append(x)
        return found

    def _pooled(self, x: Tensor) -> Tensor:
        kernel = torch.as_tensor(self.kernel).expand(x.shape[1], -1, -1, -1)
        return (F.conv2d(x.square(), kernel, stride=2, padding=1, groups=x.shape[1]) + 1e-12).sqrt()


def _convs(arrays: Mapping[str, np.ndarray], prefix: str, paddings: list[int], strides: list[int]) -> nn.ModuleList:
    convs = nn.ModuleList()
    for index, (padding, stride) in enumerate(zip(paddings, strides, strict=True)):
        kernel = torch.from_numpy(np.ascontiguousarray(arrays[f"{prefix}/Conv_{index}/kernel"].transpose(3, 2, 0, 1)))
        conv = nn.Conv2d(kernel.shape[1], kernel.shape[0], kernel.shape[-1], stride, padding)
        with torch.no_grad():
            conv.weight.copy_(kernel)
            assert conv.bias is not None
            conv.bias.copy_(torch.from_numpy(np.array(arrays[f"{prefix}/Conv_{index}/bias"])))
        convs.append(conv.requires_grad_(False))
    return convs
