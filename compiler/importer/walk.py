"""The state of one import, and what converters may ask of it.

Invariant: ``held`` names only tensors that are exactly quantised values; everything that a converter emits
has its operands made before it.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field, replace

from compiler.errors import BrokenModel, UnsupportedModel
from compiler.importer.axes import Axes
from compiler.importer.pending import Held, Pending
from compiler.importer.quantization import ActivationParameters, QuantizedConstant
from compiler.importer.shuffles import Shuffle, recognise
from compiler.importer.source import Array, SourceGraph, SourceNode
from compiler.ir import PLAIN, Move, Operator, Permute, Value
from compiler.limits import LIMITS


@dataclass
class Walk:
    """One source graph at one input size on its way to IR."""

    source: SourceGraph
    height: int
    width: int
    constants: MutableMapping[str, Array]
    values: dict[str, Value] = field(default_factory=dict)
    operators: list[Operator] = field(default_factory=list)
    held: dict[str, Held] = field(default_factory=dict)
    pending: dict[str, Pending] = field(default_factory=dict)  # float tensor before Q
    weights: dict[str, QuantizedConstant] = field(default_factory=dict)  # float tensor -> constant behind DQ
    notes: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)  # of operators

    def emit(self, value: Value, operator: Operator) -> Value:
        """Append an operator and its result."""
        extents = (value.height, value.width)
        if max(extents) > LIMITS.tensor_extent or value.channels > LIMITS.tensor_extent:
            reason = f"a tensor of {value.height}x{value.width}x{value.channels}"
            raise UnsupportedModel(operator.name, reason, f"extents up to {LIMITS.tensor_extent}")
        self.values[value.name] = value
        self.operators.append(replace(operator, name=self._own_name(operator.name)))
        return value

    def _own_name(self, name: str) -> str:
        """A name that no operator has: a node that is quantised twice becomes two, with constants of their own."""
        number, unique = 1, name
        while unique in self.names:
            unique, number = f"{name}.{number}", number + 1
        self.names.add(unique)
        return unique

    def fresh(self, name: str) -> str:
        """A value name that is not taken yet."""
        number = 1
        unique = name
        while unique in self.values:
            unique, number = f"{name}.{number}", number + 1
        return unique

    def settle(self, tensor: str, pending: Pending, parameters: ActivationParameters) -> Held:
        """Make the IR of a pending operator, its result named ``tensor``."""
        result = pending.shape.value(tensor, parameters)
        for value, operator in pending.settle(result):
            self.emit(value, operator)
        return Held(tensor, pending.axes, signed=parameters.signed)

    def seen(self, tensor: str) -> Held | None:
        """What is held of a tensor; an operator that keeps its source's parameters is settled first."""
        if tensor not in self.held and tensor in self.pending:
            waiting = self.pending[tensor]
            if waiting.keeps is None or waiting.ranges:
                return None
            parameters = ActivationParameters(waiting.keeps.scale, waiting.keeps.zero_point)
            self.held[tensor] = self.settle(tensor, waiting, parameters)
        return self.held.get(tensor)

    def operand(self, node: SourceNode, index: int) -> Value:
        """The map 1 x C x H x W behind an input; raises when the edge is float."""
        value, axes = self.viewed(node, index)
        return value if axes is None else self._resolved(node, node.inputs[index], value, axes)

    def viewed(self, node: SourceNode, index: int) -> tuple[Value, Axes | None]:
        """The value behind an input and how the tensor lies in it; None for the plain map."""
        name = node.inputs[index] if index < len(node.inputs) else ""
        held = self.seen(name)
        if held is not None:
            return self.values[held.value], held.axes
        if name == self.source.input and self.source.input_type != "float":
            reason = f"the scale of the {self.source.input_type} input {name} is not known here"
            raise UnsupportedModel(node.name, reason, "put DequantizeLinear behind the input")
        producer = self.pending[name].node if name in self.pending else (name or f"input {index}")
        reason = f"the edge from {producer} is float"
        raise UnsupportedModel(node.name, reason, "put QuantizeLinear and DequantizeLinear on this edge")

    def axes_of(self, node: SourceNode, index: int) -> tuple[Value, Axes]:
        """The value behind an input and its axes, spelled out for the plain map too."""
        value, axes = self.viewed(node, index)
        return value, axes if axes is not None else Axes.of(value)

    def constant(self, node: SourceNode, index: int) -> Array | None:
        """A constant input; None when it is absent or not constant."""
        name = node.inputs[index] if index < len(node.inputs) else ""
        return self.constants.get(name) if name else None

    def integers(self, node: SourceNode, index: int, attribute: str = "") -> tuple[int, ...] | None:
        """A constant list of integers, from an input or in older opsets an attribute; None when absent."""
        constant = self.constant(node, index)
        if constant is None:
            return node.some_integers(attribute) if attribute else None
        if constant.dtype.kind not in "iu" or constant.size > LIMITS.extent:
            reason = f"input {index} of type {constant.dtype} with {constant.size} elements"
            raise BrokenModel(node.name, reason, "export the model again")
        return tuple(int(value) for value in constant.reshape(-1))

    def _resolved(self, node: SourceNode, tensor: str, value: Value, axes: Axes) -> Value:
        shuffle = recognise(value, axes)
        if shuffle is None:
            reason = f"{tensor} of shape {list(axes.shape)} is no map that a Reshape or Transpose of {value.name} gives"
            raise UnsupportedModel(node.name, reason, "use DepthToSpace, SpaceToDepth or a channel order")
        result = self.shuffled(node, value, shuffle, tensor)
        self.held[tensor] = replace(self.held[tensor], value=result.name, axes=None)
        return result

    def shuffled(self, node: SourceNode, value: Value, shuffle: Shuffle, name: str) -> Value:
        """Emit the operators of a shuffle."""
        if shuffle.before is not None:
            value = self.permuted(node, value, shuffle.before, f"{name}.order")
        if shuffle.read != PLAIN or shuffle.write != PLAIN:
            moved = replace(
                value,
                **dict(zip(("height", "width", "channels"), moved_shape(value, shuffle), strict=True)),
                name=self.fresh(f"{name}.moved"),
                window=None,
            )
            origin = (node.name,)
            value = self.emit(
                moved, Move(f"{node.name}.move", value.name, moved.name, shuffle.read, shuffle.write, origin)
            )
        if shuffle.behind is not None:
            value = self.permuted(node, value, shuffle.behind, f"{name}.order")
        return value

    def permuted(self, node: SourceNode, value: Value, order: tuple[int, ...], name: str) -> Value:
        """Emit a channel order (or selection)."""
        result = replace(value, name=self.fresh(name), channels=len(order), window=None)
        return self.emit(result, Permute(f"{node.name}.order", value.name, result.name, order, (node.name,)))


def moved_shape(value: Value, shuffle: Shuffle) -> tuple[int, int, int]:
    """Height, width, channels behind the move of a shuffle."""
    block = shuffle.write.block
    if shuffle.write != PLAIN:
        return value.height * block, value.width * block, value.channels // block**2
    return shuffle.read.logical(value.shape)
