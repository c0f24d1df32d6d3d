"""Which stored rows an operator reads for a run of its own rows, and which it writes.

An operator's own rows are the logical rows of its result, before a Depth-to-Space store. Everything a stripe needs
follows from four numbers for each operand: stride, rows before, span, and the block of its view.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from compiler.ir import PLAIN, Add, Conv, Move, Mul, Pool, Table, Value, View
from compiler.schedule import Step
from contracts.npu import Layout


@dataclass(frozen=True)
class Run:
    """Stored rows `low` .. `high` (one past), and the padding rows that a convolution adds to them."""

    low: int
    high: int
    pad_top: int = 0
    pad_bottom: int = 0


@dataclass(frozen=True)
class Operand:
    """How own rows map to stored rows of `value`: own row y reads logical rows y * stride - before .. + span."""

    value: str
    view: View
    height: int
    """Logical rows of the value seen through the view."""
    stride: int = 1
    before: int = 0
    span: int = 1

    def run(self, first: int, last: int) -> Run:
        """Stored rows for own rows `first` .. `last` (one past)."""
        low, high = first * self.stride - self.before, (last - 1) * self.stride - self.before + self.span
        inside = max(0, low), min(self.height, high)
        return Run(*self._stored(*inside), max(0, -low), max(0, high - self.height))

    def low(self, first: int) -> int:
        """The oldest stored row that own row `first` or a later one reads."""
        low = max(0, first * self.stride - self.before)
        return self._stored(min(low, self.height), self.height)[0]

    def reach(self, stored: int) -> int | None:
        """How many own rows can be made when `stored` rows exist; None when nothing is missing."""
        logical = self._logical(stored)
        if logical >= self.height:
            return None
        return (logical + self.before - self.span) // self.stride + 1

    def _stored(self, low: int, high: int) -> tuple[int, int]:
        block = self.view.block
        if self.view.layout == Layout.S2D:
            return low * block, high * block
        if self.view.layout == Layout.NEAREST:
            return low // block, -(-high // block)
        return low, high

    def _logical(self, stored: int) -> int:
        block = self.view.block
        if self.view.layout == Layout.S2D:
            return stored // block
        return stored * block if self.view.layout == Layout.NEAREST else stored

    @property
    def unit(self) -> int:
        """Own rows of a stripe must be a multiple of this, so that an enlarged row is never cut."""
        if self.view.layout != Layout.NEAREST:
            return 1
        return self.view.block // math.gcd(self.view.block, self.stride)


@dataclass(frozen=True)
class Shape:
    """An operator as rows: what it reads, how many own rows it has, stored rows for each of them."""

    operands: tuple[Operand, ...]
    rows: int
    factor: int
    unit: int

    def written(self, first: int, last: int) -> Run:
        """Stored rows of the result for own rows."""
        return Run(first * self.factor, last * self.factor)


def shape_of(step: Step, values: Mapping[str, Value]) -> Shape:
    """The row geometry of a step; an operator that cannot be cut has one unit of all its rows."""
    result = values[step.result]
    factor = step.write.block if isinstance(step, Conv | Move) and step.write.layout == Layout.D2S else 1
    rows = result.height // factor
    if getattr(step, "host", ""):
        return _whole(step, rows, values)
    if isinstance(step, Conv):
        source = _operand(step.source, step.read, values, step.strides[0], step.pads[0], _span(step))
        extra = (_flat(step.residual.value, step.residual.view, values, factor),) if step.residual else ()
        return _shape((source, *extra), rows, factor)
    if isinstance(step, Add):
        operands = (_flat(step.a, step.a_view, values, 1), _flat(step.b, step.b_view, values, 1))
        return _shape(operands, rows, 1)
    if isinstance(step, Move):
        return _shape((_flat(step.source, step.read, values, 1),), rows, factor)
    if isinstance(step, Table):
        return _shape((_flat(step.source, PLAIN, values, 1),), rows, 1)
    if isinstance(step, Mul):
        return _shape((_flat(step.a, PLAIN, values, 1), _flat(step.b, PLAIN, values, 1)), rows, 1)
    if isinstance(step, Pool) and not step.whole:
        span = (step.kernel[0] - 1) * step.dilations[0] + 1
        return _shape((_operand(step.source, PLAIN, values, step.strides[0], step.pads[0], span),), rows, 1)
    return _whole(step, rows, values)


def _whole(step: Step, rows: int, values: Mapping[str, Value]) -> Shape:
    whole = tuple(Operand(name, View(), values[name].height, 1, 0, values[name].height) for name in step.reads)
    return Shape(whole, rows, 1, rows)


def _shape(operands: tuple[Operand, ...], rows: int, factor: int) -> Shape:
    return Shape(operands, rows, factor, math.lcm(*(operand.unit for operand in operands)))


def _span(conv: Conv) -> int:
    return (conv.kernel[0] - 1) * conv.dilations[0] + 1


def _flat(name: str, view: View, values: Mapping[str, Value], factor: int) -> Operand:
    return _operand(name, view, values, factor, 0, factor)


def _operand(name: str, view: View, values: Mapping[str, Value], stride: int, before: int, span: int) -> Operand:
    return Operand(name, view, view.logical(values[name].shape)[0], stride, before, span)
