"""A reference net as QDQ ONNX: what exporters write and the compiler takes.

x float [1, 3, height, width] -> y float [1, 3, 2 height, 2 width]; every edge between operators is quantised. With
`anchor` the enlarged frame (nearest) is added behind the PixelShuffle, as the product's own nets do; without it the
graph is the one that the peers ran.
"""

from __future__ import annotations

from benchmarks.reference_nets.graph import FLOAT, GraphWriter
from benchmarks.reference_nets.quantized import Activation, Layer, QuantizedNet
from benchmarks.reference_nets.shape import ENLARGEMENT


def qdq_model(net: QuantizedNet, *, anchor: bool = False) -> bytes:
    """ONNX bytes, free in height and width."""
    writer = GraphWriter()
    shape = net.shape
    image = _quantized(writer, "x", net.image, "x_dq")
    packed = writer.node("SpaceToDepth", [image], "s2d", blocksize=shape.space_to_depth)
    trunk = _conv(writer, _quantized(writer, packed, net.image), net.head)
    for index, block in enumerate(net.blocks):
        inner = _conv(writer, _conv(writer, trunk, block.first), block.second)
        total = writer.node("Add", [trunk, inner], f"block{index}_add")
        trunk = _quantized(writer, total, block.result)
    tail = _conv(writer, trunk, net.tail)
    shuffled = writer.node("DepthToSpace", [tail], "shuffled", blocksize=shape.shuffle, mode="CRD")
    final = _quantized(writer, shuffled, net.tail.result, "shuffled_dq" if anchor else "y")
    if anchor:
        _anchored(writer, final, image, net.image)
    return writer.model(shape.name, FLOAT, [1, 3, "height", "width"], [1, 3, "height2", "width2"])


def _anchored(writer: GraphWriter, shuffled: str, image: str, quantisation: Activation) -> None:
    scales = writer.constant("anchor_scales", [1, 1, ENLARGEMENT, ENLARGEMENT], "float32")
    rounding = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    enlarged = writer.node("Resize", [image, "", scales], "anchor", mode="nearest", **rounding)
    total = writer.node("Add", [shuffled, _quantized(writer, enlarged, quantisation)], "sum")
    _quantized(writer, total, quantisation, "y")


def _conv(writer: GraphWriter, source: str, layer: Layer) -> str:
    """Conv, ReLU when the layer has one, QuantizeLinear and DequantizeLinear."""
    name, outputs = layer.name, len(layer.weights)
    weight_scale = writer.constant(f"{name}_weight_scale", layer.weight_scale, "float32")
    weight_zero = writer.constant(f"{name}_weight_zero_point", [0] * outputs, "int8")
    weights = writer.constant(f"{name}_weight", layer.weights, "int8")
    writer.node("DequantizeLinear", [weights, weight_scale, weight_zero], f"{name}_weight_dq", axis=0)
    scale = layer.weight_scale.dtype.type(layer.source.scale) * layer.weight_scale
    bias_scale = writer.constant(f"{name}_bias_scale", scale, "float32")
    bias_zero = writer.constant(f"{name}_bias_zero_point", [0] * outputs, "int32")
    bias = writer.constant(f"{name}_bias", layer.bias, "int32")
    writer.node("DequantizeLinear", [bias, bias_scale, bias_zero], f"{name}_bias_dq", axis=0)
    operands = [source, f"{name}_weight_dq", f"{name}_bias_dq"]
    result = writer.node("Conv", operands, name, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    if layer.relu:
        result = writer.node("Relu", [result], f"{name}_relu")
    return _quantized(writer, result, layer.result)


def _quantized(writer: GraphWriter, tensor: str, activation: Activation, output: str | None = None) -> str:
    """QuantizeLinear and DequantizeLinear; the dequantised tensor's name."""
    final = output or f"{tensor}_dq"
    scale = writer.constant(f"{final}_scale", activation.scale, "float32")
    zero = writer.constant(f"{final}_zero_point", activation.zero_point, "uint8")
    writer.node("QuantizeLinear", [tensor, scale, zero], f"{final}_q")
    return writer.node("DequantizeLinear", [f"{final}_q", scale, zero], final)
