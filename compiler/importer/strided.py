"""Copies that the convolution array makes: every n-th pixel, by a depthwise 1x1 convolution with weight 1."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from compiler.importer.source import SourceNode
from compiler.importer.walk import Walk
from compiler.ir import Conv, Value


def strided(walk: Walk, node: SourceNode, value: Value, steps: tuple[int, int], name: str) -> Value:
    """Every ``steps``-th row and column, the bytes unchanged."""
    height, width = -(-value.height // steps[0]), -(-value.width // steps[1])
    result = replace(value, name=walk.fresh(name), height=height, width=width, window=None)
    return walk.emit(result, identity(f"{node.name}.strided", value, result, (0, 0, 0, 0), steps, (node.name,)))


def identity(
    name: str,
    source: Value,
    result: Value,
    pads: tuple[int, int, int, int],
    strides: tuple[int, int],
    origin: tuple[str, ...],
) -> Conv:
    """Depthwise, weight 1, weight scale 1, no bias: the multiplier is 1 and every byte stays."""
    channels = source.channels
    return Conv(
        name=name,
        source=source.name,
        result=result.name,
        weights=np.ones((channels, 1, 1, 1), np.int8),
        weight_scale=np.ones(channels, np.float32),
        weight_zero_point=np.zeros(channels, np.int8),
        bias=np.zeros(channels, np.int32),
        strides=strides,
        pads=pads,
        dilations=(1, 1),
        groups=channels,
        scale=result.scale,
        zero_point=result.zero_point,
        origin=origin,
    )
