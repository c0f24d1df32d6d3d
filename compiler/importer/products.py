"""Gemm and MatMul: with constant weights a convolution, of two activations a host operator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from compiler.errors import UnsupportedModel
from compiler.importer.axes import Axes
from compiler.importer.convolution import Geometry, convolution, quantized_node_bias
from compiler.importer.pending import Pending, Shape
from compiler.importer.quantization import QuantizedConstant, quantized_weights
from compiler.importer.source import SourceNode
from compiler.importer.walk import Walk
from compiler.ir import Host, HostFunction, Value


def convert_gemm(walk: Walk, node: SourceNode) -> Pending:
    """Gemm: constant 8-bit weights, alpha and beta 1, the first operand not transposed; a convolution."""
    if node.real("alpha", 1.0) != 1.0 or node.real("beta", 1.0) != 1.0 or node.integer("transA", 0):
        raise UnsupportedModel(node.name, "alpha, beta or transA", "fold them into the weights")
    constant = walk.weights.get(node.inputs[1]) if len(node.inputs) > 1 else None
    if constant is None:
        raise UnsupportedModel(node.name, "weights are float", "quantise the weights (DequantizeLinear of int8)")
    if constant.values.ndim != 2:
        raise UnsupportedModel(constant.node, f"weights with {constant.values.ndim} axes", "use a matrix")
    return _linear(walk, node, constant if node.integer("transB", 0) else constant.transposed((1, 0)))


def convert_matmul(walk: Walk, node: SourceNode) -> Pending:
    """MatMul: with a constant 8-bit matrix behind it a convolution; of two maps [1, C, H, K] and [1, C, K, W] a
    host operator.
    """
    constant = walk.weights.get(node.inputs[1]) if len(node.inputs) > 1 else None
    if constant is None:
        return _of_activations(walk, node)
    while constant.values.ndim > 2 and constant.values.shape[0] == 1:
        axis = constant.axis - 1 if constant.scale.size > 1 else 0
        constant = replace(constant, values=constant.values[0], axis=axis)
    if constant.values.ndim != 2:
        raise UnsupportedModel(constant.node, f"weights with {constant.values.ndim} axes", "use a matrix")
    return _linear(walk, node, constant.transposed((1, 0)))


def _linear(walk: Walk, node: SourceNode, matrix: QuantizedConstant) -> Pending:
    """A matrix [outputs, inputs] over the last axis of the first operand."""
    value, axes = walk.axes_of(node, 0)
    plane = value.height * value.width
    outputs, inputs = matrix.values.shape
    order = axes.offsets(len(axes.dims) - 1)
    if inputs != len(order):
        reason = f"a matrix {inputs} -> {outputs} for {len(order)} features"
        raise UnsupportedModel(node.name, reason, "export the model again")
    others = [stride for dim in axes.dims[:-1] for _, stride in dim]
    if len(order) == plane * value.channels and not others:
        kernel, shape, result_axes = (value.height, value.width), Shape(1, 1, outputs), ((outputs, 1),)
    elif not np.any(order % plane) and all(stride < plane for stride in others):
        kernel, shape, result_axes = (1, 1), Shape(value.height, value.width, outputs), ((outputs, plane),)
        order = order // plane
    else:
        reason = f"the last axis of {list(axes.shape)} is neither the channel nor the whole map"
        raise UnsupportedModel(node.name, reason, "bring the channel to the last axis (NHWC) or flatten the map")
    constant = _as_weights(matrix, order, (value.channels, *kernel))
    weights = quantized_weights(constant)
    bias = quantized_node_bias(walk, node, value, weights)
    geometry = Geometry((1, 1), (0, 0, 0, 0), (1, 1), 1)
    geometry.result(replace(node, attributes={}), value, weights.values)
    dims = tuple(dim if dim else () for dim in axes.dims[:-1])
    made = Axes((*dims, tuple(factor for factor in result_axes if factor[0] > 1)))
    return Pending(
        node.name, shape, lambda result: convolution(node, value, result, weights, bias, geometry), axes=made
    )


def _as_weights(
    matrix: QuantizedConstant, order: npt.NDArray[np.int64], shape: tuple[int, int, int]
) -> QuantizedConstant:
    values = np.empty_like(matrix.values)
    values[:, order] = matrix.values
    return replace(matrix, values=values.reshape(len(values), *shape), axis=0 if matrix.axis == 0 else 1)


def _of_activations(walk: Walk, node: SourceNode) -> Pending:
    a, b = walk.operand(node, 0), walk.operand(node, 1)
    if a.width != b.height or a.channels != b.channels:
        reason = f"maps {a.shape} and {b.shape} (rows, cols, channels) do not multiply"
        raise UnsupportedModel(node.name, reason, "use [1, C, H, K] and [1, C, K, W]")

    def make(result: Value) -> Host:
        return Host(node.name, HostFunction.MATRIX_PRODUCT, a.name, b.name, result.name, origin=(node.name,))

    return Pending(node.name, Shape(a.height, b.width, a.channels), make)
