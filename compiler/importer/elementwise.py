"""Relu, Clip and Add."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from compiler.errors import UnsupportedModel
from compiler.importer.pending import Context, Pending, Range, Shape
from compiler.importer.source import SourceNode
from compiler.ir import Add, Clip, Conv, Move, Operator, Value
from contracts.npu import Layout


def convert_relu(context: Context, node: SourceNode) -> Pending:
    """Relu: behind any supported operator, before or after its QuantizeLinear."""
    return _ranged(context, node, Range(0.0, np.inf))


def convert_clip(context: Context, node: SourceNode) -> Pending:
    """Clip: constant bounds, behind any supported operator."""
    bounds = [-np.inf, np.inf]
    for index in (1, 2):
        name = node.inputs[index] if index < len(node.inputs) else ""
        if not name:
            continue
        bounds[index - 1] = _scalar(context, node, name)
    return _ranged(context, node, Range(bounds[0], bounds[1]))


def convert_add(context: Context, node: SourceNode) -> Pending:
    """Add: two quantised tensors of the same shape."""
    a, b = context.operand(node, 0), context.operand(node, 1)
    if a.shape != b.shape:
        raise UnsupportedModel(node.name, f"shapes {a.shape} and {b.shape} differ", "add tensors of equal shape")
    if _conv_index(context.operators, b.name) > _conv_index(context.operators, a.name):
        a, b = b, a  # the order that docs/reference/arithmetic.md fixes

    def make(result: Value) -> Add:
        return Add(node.name, a.name, b.name, result.name, origin=(node.name,))

    return Pending(node.name, Shape(*a.shape), make)


def _ranged(context: Context, node: SourceNode, bounds: Range) -> Pending:
    name = node.inputs[0]
    if name in context.pending:
        before = context.pending[name]
        return replace(before, ranges=(*before.ranges, (node.name, bounds)))
    value = context.operand(node, 0)
    return _ranged_value(node, value, bounds)


def _ranged_value(node: SourceNode, value: Value, bounds: Range) -> Pending:
    return Pending(node.name, Shape(*value.shape), lambda _: None, ((node.name, bounds),), source=value.name)


def _conv_index(operators: list[Operator], value: str) -> int:
    """Position of the convolution that makes ``value``, also through Clip or DepthToSpace; else -1."""
    for index in range(len(operators) - 1, -1, -1):
        operator = operators[index]
        if operator.result != value:
            continue
        if isinstance(operator, Clip) or (isinstance(operator, Move) and operator.write.layout == Layout.D2S):
            value = operator.source
            continue
        return index if isinstance(operator, Conv) else -1
    return -1


def _scalar(context: Context, node: SourceNode, name: str) -> float:
    value = context.source.constants.get(name)
    if value is None and name in context.weights:
        raise UnsupportedModel(node.name, f"bound {name} is quantised", "export Clip bounds as float constants")
    if value is None or value.size != 1 or not np.isfinite(float(value.reshape(()))):
        raise UnsupportedModel(node.name, f"bound {name} is not a finite constant", "export constant Clip bounds")
    return float(value.reshape(()))
