"""A reference net in ONNX Runtime's integer operators, whole: the oracle for every pixel, and the rival in CPU time.

x uint8 [1, height, width, 3] -> y uint8 [1, 2 height, 2 width, 3]. Convolutions are com.microsoft QLinearConv with
channels_last, the fastest exact form on x86 (measured against seven others); additions are QLinearAdd with the trunk
first, the order of the QDQ form. Space-to-Depth and PixelShuffle are Reshape, Transpose, Reshape on bytes. A ReLU is
the lower end of a result whose zero point is 0. Weights are signed; on processors where that saturates they are stored
unsigned around 128, which is the same net.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from benchmarks.reference_nets.exact_session import saturates
from benchmarks.reference_nets.graph import UINT8, GraphWriter
from benchmarks.reference_nets.quantized import Activation, Layer, QuantizedNet

_MICROSOFT = "com.microsoft"


def qoperator_model(net: QuantizedNet, height: int | None = None, width: int | None = None) -> bytes:
    """ONNX bytes for frames of one size (that of the net when not given)."""
    shape = net.shape.resized(height or net.shape.height, width or net.shape.width)
    writer = GraphWriter()
    rows, cols = shape.height // shape.space_to_depth, shape.width // shape.space_to_depth
    trunk, at = _conv(writer, _space_to_depth(writer, rows, cols, shape.space_to_depth), net.head), net.head.result
    for index, block in enumerate(net.blocks):
        inner = _conv(writer, _conv(writer, trunk, block.first), block.second)
        trunk = _add(writer, f"block{index}_add", (trunk, at), (inner, block.second.result), block.result)
        at = block.result
    _depth_to_space(writer, _conv(writer, trunk, net.tail), rows, cols, shape.shuffle)
    y = [1, rows * shape.shuffle, cols * shape.shuffle, 3]
    return writer.model(shape.name, UINT8, [1, shape.height, shape.width, 3], y, microsoft=True)


def _space_to_depth(writer: GraphWriter, rows: int, cols: int, block: int) -> str:
    tiled = writer.constant("s2d_tiles", [1, rows, block, cols, block, 3], "int64")
    packed = writer.constant("s2d_shape", [1, rows, cols, block * block * 3], "int64")
    tiles = writer.node("Reshape", ["x", tiled], "s2d_tiled")
    moved = writer.node("Transpose", [tiles], "s2d_moved", perm=[0, 1, 3, 2, 4, 5])
    return writer.node("Reshape", [moved, packed], "s2d")


def _depth_to_space(writer: GraphWriter, source: str, rows: int, cols: int, block: int) -> None:
    split = writer.constant("d2s_tiles", [1, rows, cols, 3, block, block], "int64")
    final = writer.constant("d2s_shape", [1, rows * block, cols * block, 3], "int64")
    tiles = writer.node("Reshape", [source, split], "d2s_tiled")
    moved = writer.node("Transpose", [tiles], "d2s_moved", perm=[0, 1, 4, 2, 5, 3])
    writer.node("Reshape", [moved, final], "y")


def _conv(writer: GraphWriter, source: str, layer: Layer) -> str:
    name, outputs = layer.name, len(layer.weights)
    operands = [
        source,
        *_parameters(writer, f"{name}_x", layer.source),
        writer.constant(f"{name}_w", *_stored(layer.weights)),
        writer.constant(f"{name}_ws", layer.weight_scale, "float32"),
        writer.constant(f"{name}_wz", *_stored(np.zeros(outputs, np.int8))),
        *_parameters(writer, f"{name}_y", layer.result),
        writer.constant(f"{name}_b", layer.bias, "int32"),
    ]
    geometry = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "channels_last": 1}
    return writer.node("QLinearConv", operands, name, domain=_MICROSOFT, **geometry)


def _add(
    writer: GraphWriter, name: str, a: tuple[str, Activation], b: tuple[str, Activation], result: Activation
) -> str:
    operands = [
        a[0],
        *_parameters(writer, f"{name}_a", a[1]),
        b[0],
        *_parameters(writer, f"{name}_b", b[1]),
        *_parameters(writer, f"{name}_c", result),
    ]
    return writer.node("QLinearAdd", operands, name, domain=_MICROSOFT)


def _parameters(writer: GraphWriter, name: str, activation: Activation) -> tuple[str, str]:
    scale = writer.constant(f"{name}s", activation.scale, "float32")
    return scale, writer.constant(f"{name}z", activation.zero_point, "uint8")


def _stored(weights: npt.NDArray[np.int8]) -> tuple[npt.NDArray[np.int16], str]:
    """Codes and their type."""
    shifted = np.asarray(weights, np.int16)
    return (shifted + 128, "uint8") if saturates() else (shifted, "int8")
