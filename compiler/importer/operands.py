"""Constant operands as one number for each channel, and activations stretched to a larger shape."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from compiler.errors import BadQuantization, UnsupportedModel
from compiler.importer.source import Array, SourceNode
from compiler.importer.tables import Reals
from compiler.importer.walk import Walk
from compiler.ir import Resize, Transformation, Value


def per_channel(walk: Walk, node: SourceNode, index: int, channels: int, *, channel_last: bool = False) -> Reals:
    """A constant operand (float or quantised) as one finite number, or one for each channel."""
    name = node.inputs[index] if index < len(node.inputs) else ""
    constant = walk.constants.get(name)
    if constant is None and name in walk.weights:
        constant = walk.weights[name].reals()
    if constant is None:
        raise UnsupportedModel(node.name, f"operand {name or index} is not a constant", "export it as an initializer")
    numbers = channel_vector(node, constant, channels, channel_last=channel_last).astype(np.float64)
    if not np.isfinite(numbers).all():
        raise BadQuantization(node.name, f"operand {name} is not finite", "export the model again")
    return numbers


def channel_vector(node: SourceNode, constant: Array, channels: int, *, channel_last: bool = False) -> Array:
    """[1] or [channels]: a constant that differs by channel only. ``channel_last``: the channel is the last
    axis of the tensor, not the third from the end.
    """
    if constant.size == 1:
        return constant.reshape(1)
    shape = constant.shape
    channel_axis = len(shape) - (1 if channel_last else 3)
    if not (channel_axis >= 0 and shape[channel_axis] == channels == math.prod(shape)):
        reason = f"a constant operand of shape {list(shape)}"
        raise UnsupportedModel(node.name, reason, "use one number, or one for each channel ([C, 1, 1])")
    return constant.reshape(channels)


def stretched(walk: Walk, node: SourceNode, value: Value, shape: tuple[int, int, int]) -> Value:
    """An activation of extents 1 repeated up to ``shape``; the value itself when nothing is to do."""
    height, width, channels = shape
    wide = value
    if value.channels != channels:
        if value.channels != 1:
            raise _differ(node, value, shape)
        wide = walk.permuted(node, wide, (0,) * channels, f"{value.name}.wide")
    if (wide.height, wide.width) == (height, width):
        return wide
    if wide.height not in (1, height) or wide.width not in (1, width):
        raise _differ(node, value, shape)
    result = replace(wide, name=walk.fresh(f"{value.name}.wide"), height=height, width=width, window=None)
    name = f"{node.name}.wide"
    return walk.emit(
        result, Resize(name, wide.name, result.name, False, Transformation.ASYMMETRIC, origin=(node.name,))
    )


def turns(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether ONNX Runtime's integer addition takes ``b`` first: it does where one number of ``a`` meets a run of
    ``b``, that is, where ``a`` has extent 1 on the innermost axis of both on which they have more than one, or
    both have one number there. A scalar counts as one axis.
    """
    axes = zip(reversed(a or (1,)), reversed(b or (1,)), strict=False)
    pairs = [(one, other) for one, other in axes if max(one, other) > 1]
    return not pairs or pairs[0][0] == 1


def _differ(node: SourceNode, value: Value, shape: tuple[int, int, int]) -> UnsupportedModel:
    reason = f"shapes {value.shape} and {shape} differ"
    return UnsupportedModel(node.name, reason, "use operands of equal shape, or with extents of 1")
