"""The graph of one profile, its invariants, and where its values lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from compiler.errors import InternalError
from compiler.ir.core import Add, Block, Clip, Conv, Move
from compiler.ir.host import Host
from compiler.ir.shape import Join, Pad, Part, Permute
from compiler.ir.values import Value
from compiler.ir.vector import Mul, Pool, Resize, Table

Simple = Conv | Add | Move | Clip | Table | Mul | Pool | Resize | Pad | Permute | Join | Part | Host
Operator = Simple | Block
STRUCTURAL = (Join, Part)


@dataclass(frozen=True)
class State:
    """What a net keeps from frame to frame: the ONNX input that reads it, its value, and the output that follows."""

    name: str
    value: str
    output: str


@dataclass(frozen=True)
class Graph:
    """One profile's graph. ``outputs`` pairs the ONNX output name with the value that holds it; those of ``states``
    are what the next frame reads.
    """

    name: str
    input: str
    outputs: tuple[tuple[str, str], ...]
    values: Mapping[str, Value]
    operators: tuple[Operator, ...]
    notes: tuple[str, ...] = field(default=())
    states: tuple[State, ...] = field(default=())

    @property
    def inputs(self) -> tuple[str, ...]:
        """Values that exist before the frame: the frame itself, and the states."""
        return (self.input, *(state.value for state in self.states))

    def with_operators(self, operators: list[Operator]) -> Graph:
        """The same graph with other operators; values that nobody names any more are dropped."""
        used = {*self.inputs, *(value for _, value in self.outputs)}
        for operator in flat(operators):
            used.update((*operator.reads, operator.result))
        used.update(parent for name in list(used) for parent in self.parents(name))
        values = {name: value for name, value in self.values.items() if name in used}
        return replace(self, operators=tuple(operators), values=values)

    def consumers(self, value: str) -> list[Operator]:
        """Operators that read a value, in order."""
        return [operator for operator in self.operators if value in operator.reads]

    def producer(self, value: str) -> Operator | None:
        """The operator that makes a value; None for the input."""
        return next((operator for operator in self.operators if operator.result == value), None)

    def parents(self, value: str) -> list[str]:
        """The values that a window lies in, nearest first; empty for a value with bytes of its own."""
        chain: list[str] = []
        while value in self.values and (window := self.values[value].window) is not None:
            value = window.parent
            if value in chain:
                raise InternalError(value, "lies inside itself", "report this model")
            chain.append(value)
        return chain

    def is_output(self, value: str) -> bool:
        """Whether the caller sees this value."""
        return any(name == value for _, name in self.outputs)

    def private_to(self, value: str, consumer: Operator) -> bool:
        """Whether ``consumer`` is the only reader and the caller does not see the value."""
        return self.consumers(value) == [consumer] and not self.is_output(value)


def flat(operators: tuple[Operator, ...] | list[Operator]) -> Iterator[Simple]:
    """All operators with blocks opened."""
    for operator in operators:
        if isinstance(operator, Block):
            yield from operator.body
        else:
            yield operator


def check(graph: Graph) -> Graph:
    """Raise InternalError unless every value is made once, before it is read, and every output is made."""
    made = set(graph.inputs)
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
    for entry in graph.values.values():
        _check_window(graph, entry)
    return graph


def _check_window(graph: Graph, value: Value) -> None:
    window = value.window
    if window is None:
        return
    parent = graph.values.get(window.parent)
    first = (window.row, window.col, window.channel)
    inside = parent is not None and all(
        start >= 0 and start + extent <= whole
        for start, extent, whole in zip(first, value.shape, parent.shape, strict=True)
    )
    if parent is None or not inside or not value.same_quantization(parent):
        raise InternalError(value.name, f"is no window of {window.parent}", "report this model")


@dataclass(frozen=True)
class Place:
    """Where a value's bytes lie: the value that owns them and the first element inside it."""

    root: Value
    row: int
    col: int
    channel: int

    @property
    def offset(self) -> int:
        """Bytes from the start of the root, which is dense H x W x C."""
        return (self.row * self.root.width + self.col) * self.root.channels + self.channel

    @property
    def row_stride(self) -> int:
        """Bytes."""
        return self.root.width * self.root.channels

    @property
    def pixel_stride(self) -> int:
        """Bytes."""
        return self.root.channels


def place(graph: Graph, name: str) -> Place:
    """Follow the windows of a value to the bytes that it shares."""
    value = graph.values[name]
    row = col = channel = 0
    for _ in graph.parents(name):
        assert value.window is not None
        row, col, channel = row + value.window.row, col + value.window.col, channel + value.window.channel
        value = graph.values[value.window.parent]
    return Place(value, row, col, channel)


def share_bytes(graph: Graph, one: str, other: str) -> bool:
    """Whether two values have a byte in common: the same one, or windows of one map that meet."""
    a, b = place(graph, one), place(graph, other)
    if a.root.name != b.root.name:
        return False
    first, second = graph.values[one].shape, graph.values[other].shape
    starts = zip((a.row, a.col, a.channel), first, (b.row, b.col, b.channel), second, strict=True)
    return all(mine < its + extent and its < mine + length for mine, length, its, extent in starts)
