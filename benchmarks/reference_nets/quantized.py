"""The integers of a reference net: random weights, scales calibrated on a float run over smooth frames.

Each convolution's weights are scaled until its output has a chosen spread, so that no activation saturates or dies
however deep the net; accuracy is meaningless, distribution and shapes are real. Weights are s8 with one scale for
each output channel, activations u8 with zero points (0 behind a ReLU), biases s32 at scale xs * ws.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from benchmarks.reference_nets.frames import smooth_frame
from benchmarks.reference_nets.shape import ConvShape, NetShape

Floats = npt.NDArray[np.float32]
CALIBRATION = (64, 96)
_SPREAD_OF_BRANCH = 0.35
_SPREAD_OF_TAIL = 0.06


@dataclass(frozen=True)
class Activation:
    """Quantisation of one tensor: real = (q - zero_point) * scale."""

    scale: float
    zero_point: int


@dataclass(frozen=True, eq=False)
class Layer:
    """One convolution; `weights` [out][in][3][3]. A ReLU is the lower end of a result whose zero point is 0."""

    name: str
    weights: npt.NDArray[np.int8]
    weight_scale: Floats
    bias: npt.NDArray[np.int32]
    source: Activation
    result: Activation
    relu: bool


@dataclass(frozen=True, eq=False)
class ResidualBlock:
    """Two convolutions and the addition of what the first one reads; `result` is the sum's quantisation."""

    first: Layer
    second: Layer
    result: Activation


@dataclass(frozen=True, eq=False)
class QuantizedNet:
    """A net with all its numbers."""

    shape: NetShape
    image: Activation
    head: Layer
    blocks: tuple[ResidualBlock, ...]
    tail: Layer


@lru_cache(maxsize=8)
def quantized_net(shape: NetShape, seed: int = 0) -> QuantizedNet:
    """Draw and calibrate `shape` (its extents do not matter)."""
    random = np.random.default_rng([seed, shape.channels, shape.blocks, shape.space_to_depth])
    image = Activation(float(np.float32(1 / 255)), 0)
    frame = smooth_frame(*CALIBRATION, seed).astype(np.float32) * np.float32(image.scale)
    by_name = {conv.name: conv for conv in shape.convolutions}
    drawn = _Drawing(random)

    trunk, head = drawn.layer(by_name["head"], _space_to_depth(frame, shape.space_to_depth), image, 1.0, relu=True)
    at = head.result
    blocks = []
    for index in range(shape.blocks):
        middle, first = drawn.layer(by_name[f"block{index}_a"], trunk, at, 1.0, relu=True)
        spread = _SPREAD_OF_BRANCH * float(trunk.std())
        branch, second = drawn.layer(by_name[f"block{index}_b"], middle, first.result, spread, relu=False)
        trunk = trunk + branch
        at = _calibrated(trunk)
        blocks.append(ResidualBlock(first, second, at))
    _, tail = drawn.layer(by_name["tail"], trunk, at, _SPREAD_OF_TAIL, relu=False)
    return QuantizedNet(shape, image, head, tuple(blocks), tail)


def narrowed(net: QuantizedNet, channels: int) -> QuantizedNet:
    """The first `channels` of every map, with the same integers and scales: what a slimmable net trains.

    Sums have fewer terms, so codes spread less; nothing saturates that did not before.
    """
    shape = replace(net.shape, name=f"{net.shape.name}@{channels}", channels=channels)
    return QuantizedNet(
        shape=shape,
        image=net.image,
        head=_cut(net.head, channels, None),
        blocks=tuple(
            ResidualBlock(_cut(block.first, channels, channels), _cut(block.second, channels, channels), block.result)
            for block in net.blocks
        ),
        tail=_cut(net.tail, None, channels),
    )


def _cut(layer: Layer, outputs: int | None, inputs: int | None) -> Layer:
    weights = np.ascontiguousarray(layer.weights[:outputs, :inputs])
    return replace(layer, weights=weights, weight_scale=layer.weight_scale[:outputs], bias=layer.bias[:outputs])


@dataclass(frozen=True)
class _Drawing:
    random: np.random.Generator

    def layer(
        self, conv: ConvShape, image: Floats, source: Activation, spread: float, *, relu: bool
    ) -> tuple[Floats, Layer]:
        """The float output and the quantised layer."""
        weights = self.random.normal(0, 1, (conv.outputs, conv.inputs, 3, 3)).astype(np.float32)
        weights *= np.float32(spread) / _convolved(image, weights).std()
        scale = (np.abs(weights).reshape(conv.outputs, -1).max(axis=1) / 127).astype(np.float32)
        codes = np.clip(np.rint(weights / scale[:, None, None, None]), -127, 127).astype(np.int8)
        bias_scale = (np.float32(source.scale) * scale).astype(np.float32)
        bias = np.rint(self.random.normal(0, 0.1 * spread, conv.outputs) / bias_scale).astype(np.int32)
        output = _convolved(image, codes * scale[:, None, None, None]) + bias * bias_scale
        output = np.maximum(output, 0) if relu else output
        return output, Layer(conv.name, codes, scale, bias, source, _calibrated(output), relu)


def _calibrated(tensor: Floats) -> Activation:
    """Scale and zero point over all but the outermost values; the range holds 0, and starts there behind a ReLU."""
    low = min(0.0, float(np.quantile(tensor, 0.0005)))
    high = max(0.0, float(np.quantile(tensor, 0.9995)))
    scale = float(np.float32((high - low) / 255))
    return Activation(scale, int(np.rint(-low / scale)))


def _convolved(image: Floats, weights: Floats) -> Floats:
    """3x3, stride 1, zero padding; [rows][cols][in] -> [rows][cols][out]."""
    rows, cols, _ = image.shape
    padded = np.pad(image, ((1, 1), (1, 1), (0, 0)))
    result = np.zeros((rows, cols, len(weights)), np.float32)
    for ky in range(3):
        for kx in range(3):
            result += padded[ky : ky + rows, kx : kx + cols] @ weights[:, :, ky, kx].T
    return result


def _space_to_depth(image: Floats, block: int) -> Floats:
    rows, cols, channels = image.shape[0] // block, image.shape[1] // block, image.shape[2]
    tiles = image.reshape(rows, block, cols, block, channels).transpose(0, 2, 1, 3, 4)
    return np.ascontiguousarray(tiles).reshape(rows, cols, block * block * channels)
