"""What stands between a float ONNX edge and the integer IR while its quantisation is not known yet.

A converter reads quantised inputs and returns a :class:`Pending`, which becomes IR when QuantizeLinear names
the parameters of the result. ReLUs and Clips collect as ranges on the way. An operator that only moves bytes
``keeps`` its source's parameters and needs no QuantizeLinear.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from compiler.importer.axes import Axes
from compiler.importer.quantization import ActivationParameters
from compiler.importer.tables import Reals, function_tables
from compiler.ir import Clamp, Clip, Operator, Table, Value


@dataclass(frozen=True)
class Held:
    """A tensor that is exactly a quantised value: float behind DequantizeLinear, or integer. ``axes``: how a
    tensor that is not 1 x C x H x W lies in the value.
    """

    value: str
    axes: Axes | None = None
    integer: bool = False
    signed: bool = False


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


Scaled = Callable[[str, Reals, Reals], "Pending"]


@dataclass(frozen=True)
class Pending:
    """An operator that waits for its result's parameters, with the ReLUs and Clips that follow it.

    ``keeps``: the value whose parameters the result may take over. ``axes``: how the float tensor lies in the
    result. ``scaled``: the same operator with a gain and a shift for each channel behind it, which BatchNormalization
    asks for.
    """

    node: str
    shape: Shape
    make: Callable[[Value], Operator | None]
    ranges: tuple[tuple[str, Range], ...] = ()
    source: Value | None = None  # set when there is no operator, only ranges on this settled value
    keeps: Value | None = None
    axes: Axes | None = None
    scaled: Scaled | None = None

    def settle(self, result: Value) -> list[tuple[Value, Operator]]:
        """The operators that make ``result``, each with its own result value."""
        clamp = Clamp()
        for _, bounds in self.ranges:
            clamp = clamp.narrowed(bounds.clamp(result))
        nodes = tuple(name for name, _ in self.ranges)
        name = nodes[-1] if nodes else self.node
        if self.source is not None:
            return [(result, self._clipped(name, self.source, result, clamp))]
        if not self.ranges:
            return [(result, _made(self.make(result)))]
        raw = replace(result, name=f"{result.name}.raw")
        return [(raw, _made(self.make(raw))), (result, Clip(name, raw.name, result.name, clamp, nodes))]

    def _clipped(self, name: str, source: Value, result: Value, clamp: Clamp) -> Operator:
        """A Clip; with another scale on the other side a table."""
        nodes = tuple(node for node, _ in self.ranges)
        if source.same_quantization(result):
            return Clip(name, source.name, result.name, clamp, nodes)

        def bounded(x: Reals) -> Reals:
            for _, bounds in self.ranges:
                x = np.clip(x, bounds.low, bounds.high)
            return x

        return Table(name, source.name, result.name, function_tables(source, result, bounded), nodes)


def _made(operator: Operator | None) -> Operator:
    assert operator is not None
    return operator
