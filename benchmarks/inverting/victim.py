"""What is attacked: the shipped embedder, and exactly what a device sends of it.

`Device` is the black box: the INT8 net through ONNX Runtime, codes as the agent cuts and sorts them. `OpenNet` is
the same net with its weights taken out of the shipped file, differentiable: what an attacker has who bought a phone.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from torch import Tensor, nn
from torch.nn import functional as F

from edge_agent.observers.places import without_places
from flows.data.clips import Frames
from flows.quality.runner import QualityRunner
from flows.quality.train import soft_codes

Codes = NDArray[np.uint8]


class Victim(Protocol):
    """Anything that turns frames [n, h, w, 3] into codes (n, rows, columns, channels)."""

    def codes(self, frames: Frames) -> Codes:
        """4-bit codes in their places, before the agent takes the places away."""


class Device:
    """The shipped net behind the product's own code path."""

    def __init__(self, quality_model: bytes) -> None:
        self._runner = QualityRunner(quality_model)

    def codes(self, frames: Frames) -> Codes:
        """4-bit codes in their places, before the agent takes the places away."""
        return self._runner.observe(frames).codes


def sent(codes: Codes) -> Codes:
    """What the agent uploads of codes: the cells of each frame, without their places."""
    return without_places(codes)


class OpenNet(nn.Module):
    """Pictures [n, 3, h, w] in 0..1 to features [n, 16, h/32, w/32] in 0..1, with gradients."""

    def __init__(self, quality_model: bytes) -> None:
        super().__init__()
        self._layers = [(torch.from_numpy(w), torch.from_numpy(b)) for w, b in weights_of(quality_model)[:5]]

    def forward(self, pictures: Tensor) -> Tensor:
        """Features before they are cut to codes."""
        x = pictures
        for weight, bias in self._layers:
            x = F.relu(F.conv2d(x, weight, bias, stride=2, padding=1))
        return x.clamp(max=1.0)

    def codes(self, pictures: Tensor) -> Tensor:
        """Codes as fractions of 15 with straight-through gradients."""
        return soft_codes(self.forward(pictures))


def weights_of(quality_model: bytes) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Weights and biases of every convolution in order, out of the QDQ file, in real numbers."""
    graph = onnx.load_from_string(quality_model).graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    makers = {node.output[0]: node for node in graph.node}

    def real(name: str) -> NDArray[np.float32]:
        if name in constants:
            return constants[name].astype(np.float32)
        node = makers[name]
        scale = constants[node.input[1]].astype(np.float32)
        values = constants[node.input[0]].astype(np.float32)
        zero = constants[node.input[2]].astype(np.float32) if len(node.input) > 2 else np.float32(0)
        shape = (-1, *[1] * (values.ndim - 1)) if scale.size > 1 else ()
        return np.asarray((values - zero.reshape(shape if zero.size > 1 else ())) * scale.reshape(shape), np.float32)

    return [(real(node.input[1]), real(node.input[2])) for node in graph.node if node.op_type == "Conv"]
