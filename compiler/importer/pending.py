"""What stands between a float ONNX edge and the integer IR while its quantisation is not known yet.

A converter reads settled (dequantised) inputs and returns a :class:`Pending`, which becomes IR when
QuantizeLinear names the parameters of the result. ReLUs and Clips collect as ranges on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from compiler.errors import UnsupportedModel
from compiler.importer.quantization import ActivationParameters
from compiler.importer.source import SourceGraph, SourceNode
from compiler.ir import Clamp, Clip, Operator, Value


@dataclass(frozen=True)
class Settled:
    """A float tensor that is exactly a quantised value."""

    value: str


@dataclass(frozen=True)
class Shape:
    """Extents of a result whose quantisation is not known yet."""

    height: int
    width: int
    channels: int

    def value(self, name: str, parameters: ActivationParameters) -> Value:
        """The value once the parameters are known."""
        return Value(name, self.height, self.width, self.channels, parameters.scale, parameters.zero_point)


@dataclass(frozen=True)
class Range:
    """Bounds of ReLU or Clip in real numbers; infinite where open."""

    low: float
    high: float

    def clamp(self, value: Value) -> Clamp:
        """The same bounds in the bytes of ``value``."""
        bounds = np.array([self.low, self.high], np.float32)
        with np.errstate(over="ignore"):
            steps = np.rint(bounds / np.float32(value.scale)) + np.float32(value.zero_point)
        low, high = (int(step) for step in np.clip(steps, 0, 255))
        return Clamp(low, max(low, high))


@dataclass(frozen=True)
class Pending:
    """An operator that waits for its result's parameters, with the ReLUs and Clips that follow it."""

    node: str
    shape: Shape
    make: Callable[[Value], Operator | None]
    ranges: tuple[tuple[str, Range], ...] = ()
    source: str = ""  # set when there is no operator, only ranges on this settled value

    def settle(self, result: Value) -> list[tuple[Value, Operator]]:
        """The operators that make ``result``, each with its own result value."""
        clamp = Clamp()
        for _, bounds in self.ranges:
            clamp = clamp.narrowed(bounds.clamp(result))
        nodes = tuple(name for name, _ in self.ranges)
        name = nodes[-1] if nodes else self.node
        if self.source:
            return [(result, Clip(name, self.source, result.name, clamp, nodes))]
        if not self.ranges:
            return [(result, _made(self.make(result)))]
        raw = replace(result, name=f"{result.name}.raw")
        return [(raw, _made(self.make(raw))), (result, Clip(name, raw.name, result.name, clamp, nodes))]


def _made(operator: Operator | None) -> Operator:
    assert operator is not None
    return operator


@dataclass(frozen=True)
class Context:
    """What a converter may look at."""

    source: SourceGraph
    values: Mapping[str, Value]
    settled: Mapping[str, Settled]
    pending: Mapping[str, Pending]
    weights: Mapping[str, SourceNode]
    notes: list[str]
    operators: list[Operator]

    def operand(self, node: SourceNode, index: int) -> Value:
        """The quantised value behind an input; raises when the edge is float."""
        name = node.inputs[index] if index < len(node.inputs) else ""
        if name in self.settled:
            return self.values[self.settled[name].value]
        producer = self.pending[name].node if name in self.pending else (name or f"input {index}")
        reason = f"the edge from {producer} is float"
        raise UnsupportedModel(node.name, reason, "put QuantizeLinear and DequantizeLinear on this edge")
