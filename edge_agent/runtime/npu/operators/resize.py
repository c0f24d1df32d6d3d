"""RESIZE: nearest and linear, in whole numbers (docs/reference/arithmetic.md, "Resizing")."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from edge_agent.runtime.npu.commands import Command
from edge_agent.runtime.npu.engines.base import Bytes, Step
from edge_agent.runtime.npu.errors import PlanViolation
from edge_agent.runtime.npu.operators.base import REMEDY, Operands

NEAREST, LINEAR = 0, 1
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class _Positions:
    """Where the results of one axis lie in the source: `numerator / denominator`."""

    numerator: Integers
    denominator: int
    size: int

    def limited(self, index: Integers) -> Integers:
        return np.clip(index, 0, self.size - 1)

    def nearest(self, rounding: int) -> Integers:
        num, den = self.numerator, self.denominator
        choices = (num // den, -(-num // den), -((den - 2 * num) // (2 * den)), (2 * num + den) // (2 * den))
        return self.limited(choices[rounding])


def resize(command: Command, operands: Operands) -> tuple[Step, ...]:
    """Return the steps of a RESIZE command."""
    source, target = operands.source, operands.target
    operands.expect(command, (*target.shape[:2], source.shape[2]))
    window = command.window
    if command.mode not in (NEAREST, LINEAR) or window.kernel_height > 2 or window.kernel_width > 3:
        kind = f"{command.mode}, {window.kernel_height}, {window.kernel_width}"
        raise PlanViolation(f"unknown resizing {kind}", command.where, REMEDY)
    rows, cols = (_positions(window.kernel_height, source.shape[i], target.shape[i]) for i in (0, 1))
    if command.mode == LINEAR:
        return (partial(_linear, source, target, rows, cols),)
    places = rows.nearest(window.kernel_width)[:, None] * source.shape[1] + cols.nearest(window.kernel_width)
    pixels = source.reshape(-1, source.shape[2])
    return (partial(pixels.take, places, 0, target, "clip"),)


def _positions(transformation: int, size: int, results: int) -> _Positions:
    index = np.arange(results, dtype=np.int64)
    if transformation == 0:
        return _Positions(index * size, results, size)
    if transformation == 1:
        return _Positions((2 * index + 1) * size - results, 2 * results, size)
    return _Positions(index * (size - 1), max(results - 1, 1), size)


def _linear(source: Bytes, target: Bytes, rows: _Positions, cols: _Positions) -> None:
    between = _blend(source.astype(np.int64), rows)
    total = _blend(between.swapaxes(0, 1), cols).swapaxes(0, 1)
    divisor = rows.denominator * cols.denominator
    quotient, rest = np.divmod(total, divisor)
    target[...] = quotient + ((2 * rest > divisor) | ((2 * rest == divisor) & (quotient % 2 == 1)))


def _blend(image: Integers, at: _Positions) -> Integers:
    """Return the weighted sums of neighbours along the first axis, `denominator` times their mean."""
    first = at.numerator // at.denominator
    weight = (at.numerator - first * at.denominator)[:, None, None]
    total: Integers = (at.denominator - weight) * image[at.limited(first)] + weight * image[at.limited(first + 1)]
    return total
