"""SpaceToDepth, DepthToSpace and nearest Resize: operators that only move bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from compiler.errors import BadProfile, UnsupportedModel
from compiler.importer.pending import Context, Pending, Shape
from compiler.importer.source import Array, SourceNode
from compiler.ir import Move, Value, View
from contracts.npu import Layout


def convert_space_to_depth(context: Context, node: SourceNode) -> Pending:
    """SpaceToDepth: ONNX channel order, extents divisible by blocksize."""
    block = _block(node)
    if node.text("mode", "DCR") != "DCR":
        raise UnsupportedModel(node.name, f"mode {node.text('mode', '')}", "use SpaceToDepth in its default order")
    source = context.operand(node, 0)
    if source.height % block or source.width % block:
        reason = f"{source.height}x{source.width} is not divisible by blocksize {block}"
        raise BadProfile(node.name, reason, f"give a profile with extents divisible by {block}")
    return _move(node, source, View(Layout.S2D, block), View())


def convert_depth_to_space(context: Context, node: SourceNode) -> Pending:
    """DepthToSpace: mode CRD (PixelShuffle), channels divisible by blocksize squared."""
    block = _block(node)
    if node.text("mode", "DCR") != "CRD":
        raise UnsupportedModel(node.name, "mode DCR", "use mode CRD (PixelShuffle)")
    source = context.operand(node, 0)
    if source.channels % block**2:
        reason = f"{source.channels} channels are not divisible by {block**2}"
        raise UnsupportedModel(node.name, reason, "change blocksize or channels")
    return _move(node, source, View(), View(Layout.D2S, block))


def convert_resize(context: Context, node: SourceNode) -> Pending:
    """Resize: mode nearest, enlargement by one whole number on both axes, any rounding that repeats pixels
    evenly.
    """
    source = context.operand(node, 0)
    if node.text("mode", "nearest") != "nearest":
        raise UnsupportedModel(node.name, f"mode {node.text('mode', 'nearest')}", "use mode nearest")
    block = _resize_block(context, node, source)
    if not _repeats_evenly(node, source, block):
        reason = "coordinate_transformation_mode and nearest_mode do not repeat each pixel evenly"
        raise UnsupportedModel(node.name, reason, "use asymmetric with floor")
    return _move(node, source, View(Layout.NEAREST, block), View())


def _move(node: SourceNode, source: Value, read: View, write: View) -> Pending:
    view = read if read.layout != Layout.NHWC else write
    if write.layout == Layout.D2S:
        shape = (source.height * view.block, source.width * view.block, source.channels // view.block**2)
    else:
        shape = read.logical(source.shape)

    def make(result: Value) -> Move:
        if not result.same_quantization(source):
            reason = f"scale or zero point change across {node.operator}"
            raise UnsupportedModel(node.name, reason, "use the same scale and zero point on both sides")
        return Move(node.name, source.name, result.name, read, write, (node.name,))

    return Pending(node.name, Shape(*shape), make)


def _block(node: SourceNode) -> int:
    block = node.integer("blocksize", 0)
    if not 1 <= block <= 16:
        raise UnsupportedModel(node.name, f"blocksize {block}", "use a blocksize of 1 to 16")
    return block


def _resize_block(context: Context, node: SourceNode, source: Value) -> int:
    constants = context.source.constants
    scales = constants.get(node.inputs[2]) if len(node.inputs) > 2 else None
    sizes = constants.get(node.inputs[3]) if len(node.inputs) > 3 else None
    if scales is not None and scales.size == 4:
        factors = [float(value) for value in scales.reshape(-1)]
    elif sizes is not None and sizes.size == 4:
        extents = (1, source.channels, source.height, source.width)
        factors = [float(size) / extent for size, extent in zip(sizes.reshape(-1), extents, strict=True)]
    else:
        raise UnsupportedModel(node.name, "scales are not constant", "export Resize with constant scales")
    block = factors[2]
    if factors[:2] != [1.0, 1.0] or factors[3] != block or block != int(block) or not 1 <= block <= 16:
        raise UnsupportedModel(node.name, f"scales {factors}", "enlarge height and width by one whole number")
    return int(block)


def _repeats_evenly(node: SourceNode, source: Value, block: int) -> bool:
    transformation = node.text("coordinate_transformation_mode", "half_pixel")
    rounding = node.text("nearest_mode", "round_prefer_floor")
    rounders: dict[str, Callable[[Array], Array]] = {
        "floor": np.floor,
        "ceil": np.ceil,
        "round_prefer_floor": lambda x: np.ceil(x - 0.5),  # type: ignore[operator]  # float arrays
        "round_prefer_ceil": lambda x: np.floor(x + 0.5),  # type: ignore[operator]  # float arrays
    }
    if rounding not in rounders or transformation not in ("asymmetric", "half_pixel", "pytorch_half_pixel"):
        return False
    for extent in (source.height, source.width):
        index = np.arange(extent * block, dtype=np.float64)
        position = index / block if transformation == "asymmetric" else (index + 0.5) / block - 0.5
        chosen = np.clip(rounders[rounding](position), 0, extent - 1)
        if not np.array_equal(chosen, index // block):
            return False
    return True
