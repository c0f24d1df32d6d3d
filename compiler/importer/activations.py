"""Relu, Clip and the functions of one operand that become tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from compiler.errors import UnsupportedModel
from compiler.importer.operands import per_channel
from compiler.importer.pending import Pending, Range, Shape
from compiler.importer.source import SourceNode
from compiler.importer.tables import Function, Reals, function_tables
from compiler.importer.walk import Walk
from compiler.ir import Table, Value

Converter = Callable[[Walk, SourceNode], Pending | None]


def convert_relu(walk: Walk, node: SourceNode) -> Pending:
    """Relu: behind any supported operator, before or after its QuantizeLinear; folds into the clamp of a
    convolution, addition, product, pooling or table, else it becomes a table.
    """
    return _ranged(walk, node, Range(0.0, np.inf))


def convert_clip(walk: Walk, node: SourceNode) -> Pending:
    """Clip (and Relu6): constant bounds, behind any supported operator; folds as Relu does."""
    bounds = [-np.inf, np.inf]
    for index, attribute in ((1, "min"), (2, "max")):
        name = node.inputs[index] if index < len(node.inputs) else ""
        if name:
            bounds[index - 1] = _scalar(walk, node, name)
        elif attribute in node.attributes:
            bounds[index - 1] = node.real(attribute, 0.0)
    return _ranged(walk, node, Range(bounds[0], bounds[1]))


def _ranged(walk: Walk, node: SourceNode, bounds: Range) -> Pending:
    name = node.inputs[0]
    if name in walk.pending and name not in walk.held:
        before = walk.pending[name]
        return replace(before, ranges=(*before.ranges, (node.name, bounds)))
    value, axes = walk.viewed(node, 0)
    shape = Shape(*value.shape)
    return Pending(node.name, shape, lambda _: None, ((node.name, bounds),), source=value, axes=axes)


def _scalar(walk: Walk, node: SourceNode, name: str) -> float:
    value = walk.constants.get(name)
    if value is None and name in walk.weights:
        raise UnsupportedModel(node.name, f"bound {name} is quantised", "export Clip bounds as float constants")
    if value is None or value.size != 1 or not np.isfinite(float(value.reshape(()))):
        raise UnsupportedModel(node.name, f"bound {name} is not a finite constant", "export constant Clip bounds")
    return float(value.reshape(()))


def unary(walk: Walk, node: SourceNode, function: Function) -> Pending:
    """A function of one quantised operand, by table; the result may have any scale and zero point."""
    value, axes = walk.viewed(node, 0)

    def make(result: Value) -> Table:
        return Table(node.name, value.name, result.name, function_tables(value, result, function), (node.name,))

    return Pending(node.name, Shape(*value.shape), make, axes=axes)


def convert_leaky_relu(walk: Walk, node: SourceNode) -> Pending:
    """LeakyRelu: a quantised operand, by table."""
    alpha = node.real("alpha", 0.01)
    return unary(walk, node, lambda x: np.where(x < 0, x * alpha, x))


def convert_elu(walk: Walk, node: SourceNode) -> Pending:
    """Elu: a quantised operand, by table."""
    alpha = node.real("alpha", 1.0)
    return unary(walk, node, lambda x: np.where(x < 0, alpha * np.expm1(x), x))


def convert_hard_sigmoid(walk: Walk, node: SourceNode) -> Pending:
    """HardSigmoid: a quantised operand, by table."""
    alpha, beta = node.real("alpha", 0.2), node.real("beta", 0.5)
    return unary(walk, node, lambda x: np.clip(alpha * x + beta, 0.0, 1.0))


def convert_gelu(walk: Walk, node: SourceNode) -> Pending:
    """Gelu: exact or with tanh, a quantised operand, by table."""
    if node.text("approximate", "none") == "tanh":
        return unary(walk, node, lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))
    return unary(walk, node, lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))))


def convert_prelu(walk: Walk, node: SourceNode) -> Pending:
    """PRelu: constant slopes, one for all or one for each channel, by table."""
    slopes = per_channel(walk, node, 1, walk.viewed(node, 0)[0].channels)
    return unary(walk, node, lambda x: np.where(x < 0, x * slopes[:, None], x))


def simple(name: str, function: Function) -> Converter:
    """A converter for a function without attributes."""

    def convert(walk: Walk, node: SourceNode) -> Pending:
        return unary(walk, node, function)

    convert.__doc__ = f"{name}: a quantised operand, by table."
    return convert


def sigmoid(x: Reals) -> Reals:
    """1 / (1 + exp(-x)) without overflow."""
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1 / (1 + e), e / (1 + e)))


def hard_swish(x: Reals) -> Reals:
    """x * clip(x / 6 + 1 / 2, 0, 1)."""
    return np.asarray(x * np.clip(x / 6 + 0.5, 0.0, 1.0))
