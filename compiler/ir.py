"""Integer IR: quantised values and the operators between them, as frozen dataclasses.

Activations are uint8 H x W x C with one scale and zero point (signed models are shifted by 128 at import).
Operators are in execution order. Passes make new graphs; nothing is changed in place. ``check`` states the
invariants.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from compiler.errors import InternalError
from contracts.npu import Layout


@dataclass(frozen=True)
class Value:
    """One activation tensor: real = (q - zero_point) * scale."""

    name: str
    height: int
    width: int
    channels: int
    scale: float
    zero_point: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.height * self.width * self.channels

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width, channels."""
        return self.height, self.width, self.channels

    def same_quantization(self, other: Value) -> bool:
        """Whether a byte means the same number in both."""
        return np.float32(self.scale) == np.float32(other.scale) and self.zero_point == other.zero_point


@dataclass(frozen=True)
class View:
    """How an operator sees a stored image (read) or lays its result down (write)."""

    layout: Layout = Layout.NHWC
    block: int = 0

    def logical(self, shape: tuple[int, int, int]) -> tuple[int, int, int]:
        """Logical extents of a stored image of ``shape`` seen through this view."""
        height, width, channels = shape
        if self.layout in (Layout.S2D, Layout.D2S):
            return height // self.block, width // self.block, channels * self.block**2
        if self.layout == Layout.NEAREST:
            return height * self.block, width * self.block, channels
        return shape


PLAIN = View()


@dataclass(frozen=True)
class Clamp:
    """Range of the stored bytes; ReLU and Clip narrow it."""

    low: int = 0
    high: int = 255

    def narrowed(self, other: Clamp) -> Clamp:
        """The clamp that does both."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Clamp(min(low, high), high)


@dataclass(frozen=True)
class Residual:
    """A fused addition: the operator's own result is operand a, ``value`` seen through ``view`` operand b."""

    value: str
    view: View
    clamp: Clamp


@dataclass(frozen=True, eq=False)
class Conv:
    """Convolution. ``weights`` int8 [out][in/groups][kh][kw]; pads top, bottom, left, right.

    ``scale``/``zero_point`` are those of the convolution's own result; they equal the result value's unless a
    residual is fused behind it.
    """

    name: str
    source: str
    result: str
    weights: npt.NDArray[np.int8]
    weight_scale: npt.NDArray[np.float32]
    weight_zero_point: npt.NDArray[np.int8]
    bias: npt.NDArray[np.int32]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]
    groups: int
    scale: float
    zero_point: int
    clamp: Clamp = Clamp()
    read: View = PLAIN
    write: View = PLAIN
    residual: Residual | None = None
    origin: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """Values read."""
        return (self.source,) if self.residual is None else (self.source, self.residual.value)

    @property
    def kernel(self) -> tuple[int, int]:
        """Kernel height and width."""
        return int(self.weights.shape[2]), int(self.weights.shape[3])


@dataclass(frozen=True)
class Add:
    """Elementwise addition of a and b, each seen through its view."""

    name: str
    a: str
    b: str
    result: str
    a_view: View = PLAIN
    b_view: View = PLAIN
    clamp: Clamp = Clamp()
    origin: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """Values read."""
        return (self.a, self.b)


@dataclass(frozen=True)
class Move:
    """Copy that changes the layout: Space-to-Depth, Depth-to-Space (CRD) or nearest enlargement."""

    name: str
    source: str
    result: str
    read: View = PLAIN
    write: View = PLAIN
    origin: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """Values read."""
        return (self.source,)


@dataclass(frozen=True)
class Clip:
    """ReLU or Clip that is not folded yet; same quantisation on both sides."""

    name: str
    source: str
    result: str
    clamp: Clamp
    origin: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """Values read."""
        return (self.source,)


@dataclass(frozen=True)
class Block:
    """Convolutions that run as one kernel; values between them are private to it."""

    name: str
    body: tuple[Conv, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """Values read from outside."""
        made = {conv.result for conv in self.body}
        return tuple(value for conv in self.body for value in conv.reads if value not in made)

    @property
    def result(self) -> str:
        """The last convolution's result."""
        return self.body[-1].result

    @property
    def origin(self) -> tuple[str, ...]:
        """ONNX nodes."""
        return tuple(node for conv in self.body for node in conv.origin)


Operator = Conv | Add | Move | Clip | Block


@dataclass(frozen=True)
class Graph:
    """One profile's graph. ``outputs`` pairs the ONNX output name with the value that holds it."""

    name: str
    input: str
    outputs: tuple[tuple[str, str], ...]
    values: Mapping[str, Value]
    operators: tuple[Operator, ...]
    notes: tuple[str, ...] = field(default=())

    def with_operators(self, operators: list[Operator]) -> Graph:
        """The same graph with other operators; values that nobody names any more are dropped."""
        used = {self.input, *(value for _, value in self.outputs)}
        for operator in flat(operators):
            used.update((*operator.reads, operator.result))
        values = {name: value for name, value in self.values.items() if name in used}
        return replace(self, operators=tuple(operators), values=values)

    def consumers(self, value: str) -> list[Operator]:
        """Operators that read a value, in order."""
        return [operator for operator in self.operators if value in operator.reads]

    def producer(self, value: str) -> Operator | None:
        """The operator that makes a value; None for the input."""
        return next((operator for operator in self.operators if operator.result == value), None)

    def is_output(self, value: str) -> bool:
        """Whether the caller sees this value."""
        return any(name == value for _, name in self.outputs)

    def private_to(self, value: str, consumer: Operator) -> bool:
        """Whether ``consumer`` is the only reader and the caller does not see the value."""
        return self.consumers(value) == [consumer] and not self.is_output(value)


def flat(operators: tuple[Operator, ...] | list[Operator]) -> Iterator[Conv | Add | Move | Clip]:
    """All operators with blocks opened."""
    for operator in operators:
        if isinstance(operator, Block):
            yield from operator.body
        else:
            yield operator


def check(graph: Graph) -> Graph:
    """Raise InternalError unless every value is made once, before it is read, and every output is made."""
    made = {graph.input}
    for operator in flat(graph.operators):
        for value in operator.reads:
            if value not in made:
                raise InternalError(operator.name, f"reads {value} before it is made", "report this model")
        if operator.result in made or operator.result not in graph.values:
            raise InternalError(
                operator.name, f"result {operator.result} is made twice or unknown", "report this model"
            )
        made.add(operator.result)
    for name, value in graph.outputs:
        if value not in made:
            raise InternalError(name, f"output value {value} is never made", "report this model")
    return graph
