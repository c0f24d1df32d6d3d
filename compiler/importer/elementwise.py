"""Add, Sub, Mul and Div: of two activations, or of one with a constant (a table)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from compiler import golden
from compiler.errors import BadQuantization, UnsupportedModel
from compiler.golden_vector import multiply
from compiler.importer.activations import unary
from compiler.importer.axes import Axes
from compiler.importer.operands import channel_vector, per_channel, stretched, turns
from compiler.importer.pending import Pending, Shape
from compiler.importer.source import SourceNode
from compiler.importer.tables import Function, Reals, Tables, every_byte
from compiler.importer.walk import Walk
from compiler.ir import OPEN, Add, Mul, Table, Value

Fill = Callable[[Tables, Tables, Value, Value, Value], Tables]


def convert_add(walk: Walk, node: SourceNode) -> Pending:
    """Add: two quantised tensors of the same shape (or with extents of 1), or one and a constant that differs by
    channel at most.
    """
    if _constant_operand(walk, node) is not None:
        return _with_constant(walk, node, _added)
    turned = turns(*(_onnx_shape(*walk.viewed(node, index)) for index in (0, 1)))
    a, b, shape = _operands(walk, node)
    if turned:
        a, b = b, a

    def make(result: Value) -> Add:
        return Add(node.name, a.name, b.name, result.name, origin=(node.name,))

    return Pending(node.name, shape, make)


def convert_sub(walk: Walk, node: SourceNode) -> Pending:
    """Sub: as Add; the second operand with its scale negative."""
    if _constant_operand(walk, node) is not None:
        return _with_constant(walk, node, _subtracted)
    a, b, shape = _operands(walk, node)

    def make(result: Value) -> Add:
        return Add(node.name, a.name, b.name, result.name, origin=(node.name,), subtract=True)

    return Pending(node.name, shape, make)


def convert_mul(walk: Walk, node: SourceNode) -> Pending:
    """Mul: two quantised tensors of the same shape (or with extents of 1), or one and a constant that differs by
    channel at most.
    """
    if _constant_operand(walk, node) is not None:
        return _with_constant(walk, node, _multiplied)
    a, b, shape = _operands(walk, node)

    def make(result: Value) -> Mul:
        return Mul(node.name, a.name, b.name, result.name, origin=(node.name,))

    return Pending(node.name, shape, make)


def convert_div(walk: Walk, node: SourceNode) -> Pending:
    """Div: a quantised tensor by a constant that differs by channel at most, by table."""
    if _constant_operand(walk, node) != 1:
        raise UnsupportedModel(node.name, "a divisor that is not constant", "multiply by a constant instead")
    numbers = per_channel(walk, node, 1, walk.viewed(node, 0)[0].channels)
    if (numbers == 0).any():
        raise BadQuantization(node.name, "division by zero", "export the model again")
    return unary(walk, node, lambda x: x / numbers[:, None])


def _constant_operand(walk: Walk, node: SourceNode) -> int | None:
    if len(node.inputs) != 2:
        raise UnsupportedModel(node.name, f"{node.operator} with {len(node.inputs)} operands", "use two")
    known = [name in walk.constants or name in walk.weights for name in node.inputs]
    return known.index(True) if any(known) else None


def _operands(walk: Walk, node: SourceNode) -> tuple[Value, Value, Shape]:
    a, b = walk.operand(node, 0), walk.operand(node, 1)
    height, width, channels = (max(one, other) for one, other in zip(a.shape, b.shape, strict=True))
    shape = (height, width, channels)
    return stretched(walk, node, a, shape), stretched(walk, node, b, shape), Shape(*shape)


def _added(a: Tables, b: Tables, qa: Value, qb: Value, qc: Value) -> Tables:
    return golden.add(a, b, qa, qb, qc, OPEN)


def _subtracted(a: Tables, b: Tables, qa: Value, qb: Value, qc: Value) -> Tables:
    return golden.add(a, b, qa, golden.mirrored(qb), qc, OPEN)


def _multiplied(a: Tables, b: Tables, qa: Value, qb: Value, qc: Value) -> Tables:
    return multiply(a, b, qa, qb, qc, Mul("", "", "", ""))


def _with_constant(walk: Walk, node: SourceNode, fill: Fill) -> Pending:
    """One operand constant: the entries of the table are the operator itself when it is quantised."""
    place = _constant_operand(walk, node)
    assert place is not None
    name = node.inputs[place]
    index = 1 - place
    value, axes = walk.viewed(_turned(node, index), 0)
    if name not in walk.weights:
        numbers = per_channel(walk, node, place, value.channels, channel_last=_channel_last(axes, value))
        return unary(walk, _turned(node, index), _float_function(node.operator, place, numbers[:, None]))
    constant = walk.weights[name]
    parameters = constant.parameters()
    other = Value(name, 1, 1, 1, parameters.scale, parameters.zero_point)
    last = _channel_last(axes, value)
    first = place == 0
    if node.operator == "Add":
        shapes = constant.values.shape, _onnx_shape(value, axes)
        first ^= turns(*(shapes if place == 0 else shapes[::-1]))
    levels = channel_vector(node, constant.bytes(), value.channels, channel_last=last).astype(np.uint8)

    def make(result: Value) -> Table:
        image, level = every_byte(), levels[:, None, None]
        operands = (level, image) if first else (image, level)
        facts = (other, value) if first else (value, other)
        shaped = [np.broadcast_to(part, (len(levels), 256, 1)).copy() for part in operands]
        filled = fill(shaped[0], shaped[1], facts[0], facts[1], result)
        return Table(node.name, value.name, result.name, np.ascontiguousarray(filled[:, :, 0]), (node.name,))

    return Pending(node.name, Shape(*value.shape), make, axes=axes)


def _onnx_shape(value: Value, axes: Axes | None) -> tuple[int, ...]:
    """The tensor's own shape."""
    return axes.shape if axes is not None else (1, value.channels, value.height, value.width)


def _channel_last(axes: Axes | None, value: Value) -> bool:
    """Whether the last axis of the tensor is the channel, as behind Gemm."""
    return axes is not None and axes.dims[-1] == ((value.channels, value.height * value.width),)


def _float_function(operator: str, place: int, numbers: Reals) -> Function:
    if operator == "Mul":
        return lambda x: x * numbers
    if operator == "Add":
        return lambda x: x + numbers
    return (lambda x: numbers - x) if place == 0 else (lambda x: x - numbers)


def _turned(node: SourceNode, index: int) -> SourceNode:
    return SourceNode(node.name, node.operator, (node.inputs[index],), node.outputs, node.attributes)
