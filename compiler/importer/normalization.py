"""BatchNormalization: into the convolution before it, or one table for each channel."""

from __future__ import annotations

import numpy as np

from compiler.errors import BadQuantization
from compiler.importer.activations import unary
from compiler.importer.operands import per_channel
from compiler.importer.pending import Pending
from compiler.importer.source import SourceNode
from compiler.importer.tables import Reals
from compiler.importer.walk import Walk


def convert_batch_normalization(walk: Walk, node: SourceNode) -> Pending:
    """BatchNormalization in inference form: straight behind a convolution it becomes part of its scales and bias,
    behind a quantised tensor one table for each channel.
    """
    before = walk.pending.get(node.inputs[0])
    if node.inputs[0] not in walk.held and before is not None and before.scaled is not None and not before.ranges:
        return before.scaled(node.name, *_line(walk, node, before.shape.channels))
    gain, shift = _line(walk, node, walk.viewed(node, 0)[0].channels)
    return unary(walk, node, lambda x: x * gain[:, None] + shift[:, None])


def _line(walk: Walk, node: SourceNode, channels: int) -> tuple[Reals, Reals]:
    """Gain and shift of each channel."""
    numbers = [per_channel(walk, node, index, channels, channel_last=True) for index in (1, 2, 3, 4)]
    scale, bias, mean, variance = (np.broadcast_to(values, channels) for values in numbers)
    with np.errstate(all="ignore"):
        root = np.sqrt(variance + node.real("epsilon", 1e-5))
        gain = scale / root
    if not np.isfinite(gain).all() or (root <= 0).any():
        raise BadQuantization(node.name, "a variance is not a positive number", "export the model again")
    return np.asarray(gain), np.asarray(bias - mean * gain)
