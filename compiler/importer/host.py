"""Operators that run on the host: Softmax, and those of the domain ``edgeloop``."""

from __future__ import annotations

from compiler.errors import UnsupportedModel
from compiler.importer.convolution import Geometry, convolution, quantized_node_bias
from compiler.importer.pending import Pending, Shape
from compiler.importer.quantization import quantized_weights
from compiler.importer.source import SourceNode
from compiler.importer.walk import Walk
from compiler.ir import Host, HostFunction, Value
from compiler.limits import LIMITS


def convert_softmax(walk: Walk, node: SourceNode) -> Pending:
    """Softmax along channels, height or width; runs on the host."""
    value, axes = walk.axes_of(node, 0)
    plane = value.height * value.width
    number = node.integer("axis", -1)
    if not -len(axes.dims) <= number < len(axes.dims):
        raise UnsupportedModel(node.name, f"axis {number}", "export the model again")
    wanted = (((value.channels, plane),), ((value.height, value.width),), ((value.width, 1),))
    found = axes.dims[number]
    axis = next((index for index, dim in enumerate(wanted) if found == tuple(f for f in dim if f[0] > 1)), None)
    if axis is None:
        raise UnsupportedModel(node.name, f"axis {number} mixes axes of the map", "use channels, height or width")

    def make(result: Value) -> Host:
        return Host(node.name, HostFunction.SOFTMAX, value.name, "", result.name, axis=axis, origin=(node.name,))

    return Pending(node.name, Shape(*value.shape), make, axes=walk.viewed(node, 0)[1])


def convert_deformable_alignment(walk: Walk, node: SourceNode) -> Pending:
    """edgeloop.DeformableAlignment: features, offsets [1, 2 * kh * kw, H, W] in pixels, 8-bit weights with an odd
    kernel, bias; runs on the host.
    """
    source, offsets = walk.operand(node, 0), walk.operand(node, 1)
    constant = walk.weights.get(node.inputs[2]) if len(node.inputs) > 2 else None
    if constant is None:
        raise UnsupportedModel(node.name, "weights are float", "quantise the weights (DequantizeLinear of int8)")
    weights = quantized_weights(constant)
    outputs, inputs, height, width = weights.values.shape
    dilation = node.integer("dilation", 1)
    pads = dilation * (height // 2), dilation * (width // 2)
    geometry = Geometry((1, 1), (pads[0], pads[0], pads[1], pads[1]), (dilation, dilation), 1)
    shape = geometry.result(SourceNode(node.name, "Conv", (), (), {}), source, weights.values)
    wanted = (source.height, source.width, 2 * height * width)
    if offsets.shape != wanted or (shape.height, shape.width) != wanted[:2] or inputs != source.channels:
        reason = f"offsets {offsets.shape} and kernel {height}x{width} for features {source.shape}"
        raise UnsupportedModel(node.name, reason, "use an odd kernel and two offsets for each tap")
    bias_node = SourceNode(node.name, node.operator, ("", "", *node.inputs[3:4]), node.outputs, {})
    bias = quantized_node_bias(walk, bias_node, source, weights)

    def make(result: Value) -> Host:
        return Host(
            node.name,
            HostFunction.DEFORMABLE_ALIGNMENT,
            source.name,
            offsets.name,
            result.name,
            kernel=(height, width),
            convolution=convolution(node, source, result, weights, bias, geometry),
            origin=(node.name,),
        )

    return Pending(node.name, Shape(source.height, source.width, outputs), make)


def convert_dynamic_upsampling(walk: Walk, node: SourceNode) -> Pending:
    """edgeloop.DynamicUpsampling: features and filters [1, k * k * scale^2, H, W], attributes kernel (odd) and
    scale; runs on the host.
    """
    source, filters = walk.operand(node, 0), walk.operand(node, 1)
    kernel, factor = node.integer("kernel", 3), node.integer("scale", 2)
    wanted = (source.height, source.width, kernel * kernel * factor * factor)
    if not (1 <= kernel <= LIMITS.kernel and kernel % 2 and 1 <= factor <= 16) or filters.shape != wanted:
        reason = f"filters {filters.shape}, kernel {kernel}, scale {factor} for features {source.shape}"
        raise UnsupportedModel(node.name, reason, "use an odd kernel and kernel^2 * scale^2 filter channels")
    shape = Shape(source.height * factor, source.width * factor, source.channels)

    def make(result: Value) -> Host:
        return Host(
            node.name,
            HostFunction.DYNAMIC_UPSAMPLING,
            source.name,
            filters.name,
            result.name,
            kernel=(kernel, kernel),
            factor=factor,
            origin=(node.name,),
        )

    return Pending(node.name, shape, make)


def convert_linear_temporal_attention(walk: Walk, node: SourceNode) -> Pending:
    """edgeloop.LinearTemporalAttention: query [1, C, H, W] and memory [1, 2 * T * C, H, W], T keys, then T values;
    runs on the host.
    """
    query, memory = walk.operand(node, 0), walk.operand(node, 1)
    if memory.channels % (2 * query.channels) or memory.shape[:2] != query.shape[:2]:
        reason = f"memory {memory.shape} for query {query.shape}"
        raise UnsupportedModel(node.name, reason, "concatenate T keys and T values of the query's shape")
    return _two(node, HostFunction.LINEAR_TEMPORAL_ATTENTION, query, memory)


def convert_global_motion_warp(walk: Walk, node: SourceNode) -> Pending:
    """edgeloop.GlobalMotionWarp: features and motion [1, 6, 1, 1]; runs on the host."""
    source, motion = walk.operand(node, 0), walk.operand(node, 1)
    if motion.shape != (1, 1, 6):
        raise UnsupportedModel(node.name, f"motion {motion.shape}", "give six numbers, [1, 6, 1, 1]")
    return _two(node, HostFunction.GLOBAL_MOTION_WARP, source, motion)


def _two(node: SourceNode, function: HostFunction, a: Value, b: Value) -> Pending:
    def make(result: Value) -> Host:
        return Host(node.name, function, a.name, b.name, result.name, origin=(node.name,))

    return Pending(node.name, Shape(*a.shape), make)
