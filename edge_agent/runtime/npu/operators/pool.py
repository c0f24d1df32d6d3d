"""POOL: maximum and average over windows, and the average of a whole map.

Taps outside of the image are never read: each tap is a rectangle of results over which one shifted view of
the source is combined.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from contracts.npu.program import PoolMode
from edge_agent.runtime.npu.clamping import clamp_steps
from edge_agent.runtime.npu.commands import Command
from edge_agent.runtime.npu.engines.base import Bytes, Step
from edge_agent.runtime.npu.errors import PlanViolation
from edge_agent.runtime.npu.operators.base import REMEDY, Operands
from edge_agent.runtime.npu.requantize import saturated

Floats = NDArray[np.float32]
Tap = tuple[tuple[slice, slice], tuple[slice, slice]]


def pool(command: Command, operands: Operands) -> tuple[Step, ...]:
    """Return the steps of a POOL command."""
    source, target = operands.source, operands.target
    if command.mode not in tuple(PoolMode):
        raise PlanViolation(f"unknown pooling {command.mode}", command.where, REMEDY)
    if command.mode != PoolMode.MAXIMUM:
        _check_scales(command)
    if command.whole_map:
        operands.expect(command, (1, 1, source.shape[2]))
        if command.mode != PoolMode.MAXIMUM:
            return (partial(_mean, command, source, target),)
        return (partial(np.max, source, (0, 1), target[0, 0]), *clamp_steps(target, command.clamp))
    operands.expect(command, (*target.shape[:2], source.shape[2]))
    rows, cols = _axes(command, source.shape, target.shape)
    padded = command.mode == PoolMode.AVERAGE_PADDED
    counts = [axis.padded if padded else axis.inside for axis in (rows, cols)]
    if min(axis.min() for axis in counts) < 1:
        raise PlanViolation("a window that lies outside of the image", command.where, REMEDY)
    taps = [((a[0], b[0]), (a[1], b[1])) for a in rows.taps() for b in cols.taps()]
    if command.mode == PoolMode.MAXIMUM:
        return (partial(_maximum, source, target, taps), *clamp_steps(target, command.clamp))
    divisor = np.outer(counts[0], counts[1]).astype(np.float32)[:, :, None]
    return (partial(_average, command, source, target, taps, divisor),)


@dataclass(frozen=True)
class _Axis:
    """One axis of the window over an image of `size`, for `results` results."""

    size: int
    results: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int

    def _positions(self) -> NDArray[np.intp]:
        starts = np.arange(self.results)[:, None] * self.stride - self.before
        return starts + np.arange(self.kernel) * self.dilation

    @property
    def inside(self) -> NDArray[np.intp]:
        """Taps of each result that lie in the image."""
        at = self._positions()
        count: NDArray[np.intp] = np.sum((at >= 0) & (at < self.size), axis=1)
        return count

    @property
    def padded(self) -> NDArray[np.intp]:
        """Taps of each result that lie in the image or its padding."""
        at = self._positions()
        count: NDArray[np.intp] = np.sum((at >= -self.before) & (at < self.size + self.after), axis=1)
        return count

    def taps(self) -> Iterator[tuple[slice, slice]]:
        """Yield, for each tap in order, the results that it serves and the source that it reads."""
        for column in self._positions().T:
            served = np.flatnonzero((column >= 0) & (column < self.size))
            if len(served):
                first, last = served[0], served[-1]
                yield slice(first, last + 1), slice(column[first], column[last] + 1, self.stride)


def _axes(command: Command, source: tuple[int, ...], target: tuple[int, ...]) -> tuple[_Axis, _Axis]:
    w = command.window
    return (
        _Axis(source[0], target[0], w.kernel_height, w.stride_height, w.dilation_height, w.pad_top, w.pad_bottom),
        _Axis(source[1], target[1], w.kernel_width, w.stride_width, w.dilation_width, w.pad_left, w.pad_right),
    )


def _check_scales(command: Command) -> None:
    scales = (command.addition.a_scale, command.addition.c_scale)
    if not np.isfinite(scales).all() or min(scales) <= 0:
        raise PlanViolation(f"a pooling from scale {scales[0]} to {scales[1]}", command.where, REMEDY)


def _maximum(source: Bytes, target: Bytes, taps: list[Tap]) -> None:
    target[...] = 0
    for result, read in taps:
        np.maximum(target[result], source[read], out=target[result])


@np.errstate(over="ignore", invalid="ignore", under="ignore")
def _average(command: Command, source: Bytes, target: Bytes, taps: list[Tap], count: Floats) -> None:
    a_scale, c_scale = (np.float32(scale) for scale in (command.addition.a_scale, command.addition.c_scale))
    real = (np.arange(256) - command.input_zero_point).astype(np.float32) * a_scale
    total = np.zeros(target.shape, np.float32)
    for result, read in taps:
        total[result] += real[source[read]]
    total /= count
    total /= c_scale
    total += np.float32(command.output_zero_point)
    target[...] = saturated(np.rint(total), command.clamp.low, command.clamp.high)


@np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore")
def _mean(command: Command, source: Bytes, target: Bytes) -> None:
    positions = source.shape[0] * source.shape[1]
    total = source.sum(axis=(0, 1), dtype=np.int64) - positions * command.input_zero_point
    a_scale, c_scale = (np.float32(scale) for scale in (command.addition.a_scale, command.addition.c_scale))
    multiplier = a_scale / (c_scale * np.float32(positions))
    codes = np.rint(total.astype(np.float32) * multiplier) + np.float32(command.output_zero_point)
    target[0, 0] = saturated(codes, command.clamp.low, command.clamp.high)
