"""SpaceToDepth and DepthToSpace: operators that only move bytes. Modes differ in a channel order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from compiler.errors import BadProfile, UnsupportedModel
from compiler.importer.pending import Pending, Shape
from compiler.importer.shuffles import Shuffle, depth_to_space, space_to_depth
from compiler.importer.source import SourceNode
from compiler.importer.walk import Walk, moved_shape
from compiler.ir import Move, Operator, Permute, Value

Whole = npt.NDArray[np.int64]


def convert_space_to_depth(walk: Walk, node: SourceNode) -> Pending:
    """SpaceToDepth: mode DCR (ONNX channel order) or CRD (PixelUnshuffle), extents divisible by blocksize."""
    block, mode = _block(node), _mode(node)
    source = walk.operand(node, 0)
    if source.height % block or source.width % block:
        reason = f"{source.height}x{source.width} is not divisible by blocksize {block}"
        raise BadProfile(node.name, reason, f"give a profile with extents divisible by {block}")
    order = np.arange(source.channels * block**2)
    if mode == "CRD":
        order = order.reshape(block**2, source.channels).T.reshape(-1)
    return moving(walk, node, source, space_to_depth(block, order))


def convert_depth_to_space(walk: Walk, node: SourceNode) -> Pending:
    """DepthToSpace: mode CRD (PixelShuffle) or DCR, channels divisible by blocksize squared."""
    block, mode = _block(node), _mode(node)
    source = walk.operand(node, 0)
    if source.channels % block**2:
        reason = f"{source.channels} channels are not divisible by {block**2}"
        raise UnsupportedModel(node.name, reason, "change blocksize or channels")
    order = np.arange(source.channels)
    if mode == "DCR":
        order = order.reshape(block**2, source.channels // block**2).T.reshape(-1)
    return moving(walk, node, source, depth_to_space(block, order))


def moving(walk: Walk, node: SourceNode, source: Value, shuffle: Shuffle) -> Pending:
    """A move, between channel orders where it needs them."""
    shape = Shape(*moved_shape(source, shuffle))

    def make(result: Value) -> Operator:
        if not result.same_quantization(source):
            reason = f"scale or zero point change across {node.operator}"
            raise UnsupportedModel(node.name, reason, "use the same scale and zero point on both sides")
        if shuffle.behind is None:
            value = source
            if shuffle.before is not None:
                value = walk.permuted(node, source, shuffle.before, f"{result.name}.order")
            return Move(node.name, value.name, result.name, shuffle.read, shuffle.write, (node.name,))
        value = walk.shuffled(node, source, replace(shuffle, behind=None), result.name)
        return _permute(node, value, result, shuffle.behind)

    return Pending(node.name, shape, make, keeps=source)


def _permute(node: SourceNode, value: Value, result: Value, order: tuple[int, ...]) -> Operator:
    return Permute(f"{node.name}.order", value.name, result.name, order, (node.name,))


def _mode(node: SourceNode) -> str:
    mode = node.text("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise UnsupportedModel(node.name, f"mode {mode}", "use mode CRD or DCR")
    return mode


def _block(node: SourceNode) -> int:
    block = node.integer("blocksize", 0)
    if not 1 <= block <= 16:
        raise UnsupportedModel(node.name, f"blocksize {block}", "use a blocksize of 1 to 16")
    return block
