"""A table that is a straight line between two limits, as a depthwise 1x1 convolution with the same 256 answers.

A change of scale, a sum or product with a constant, a Relu or Clip are such lines. The line is found from the bytes
alone: the slope for which the room between all 256 pairs of limits is widest. Invariant: a convolution is handed out
only after its answer to every byte was compared with the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from compiler import golden
from compiler.importer.strided import identity
from compiler.ir import Clamp, Conv, Table, Value

Real = npt.NDArray[np.float64]
_BYTES = np.arange(256, dtype=np.uint8)
_WEIGHT = 127
_STEPS = 80


def as_convolution(table: Table, source: Value, result: Value) -> Conv | None:
    """The convolution that gives the same bytes; None when there is none."""
    return next((conv for conv in _candidates(table, source, result) if _same(conv, table, source)), None)


def _candidates(table: Table, source: Value, result: Value) -> Iterator[Conv]:
    """A change of scale as it stands, its mirror image, and the lines that the bytes suggest."""
    channels = source.channels
    for sign in (1.0, -1.0):
        yield _depthwise(table, source, result, np.full(channels, sign), np.ones(channels), np.zeros(channels))
    lines = [_line(row.astype(np.float64), source.zero_point) for row in table.tables]
    known = [line for line in lines if line is not None]
    if len(known) == len(lines):
        slopes, middles = np.array(known * (channels if len(known) == 1 else 1)).T
        multipliers = np.abs(slopes) / _WEIGHT
        scales = multipliers * result.scale / source.scale
        yield _depthwise(
            table, source, result, np.sign(slopes) * _WEIGHT, scales, (middles - result.zero_point) / multipliers
        )


def _depthwise(table: Table, source: Value, result: Value, weights: Real, scales: Real, bias: Real) -> Conv:
    """One weight, scale and bias (in steps of the accumulator) for each channel."""
    plain = identity(table.name, source, result, (0, 0, 0, 0), (1, 1), table.origin)
    return replace(
        plain,
        weights=weights.astype(np.int8).reshape(-1, 1, 1, 1),
        weight_scale=scales.astype(np.float32),
        bias=np.rint(bias).astype(np.int32),
        clamp=Clamp(int(table.tables.min()), int(table.tables.max())),
    )


def _same(conv: Conv, table: Table, source: Value) -> bool:
    """Whether both answer every byte alike."""
    image = np.repeat(_BYTES[:, None, None], source.channels, axis=2)
    accumulator = golden.convolve(image, conv, source.zero_point)
    answers = golden.requantize(accumulator, golden.multiplier(conv, source), conv.zero_point, conv.clamp)
    wanted = table.tables[:, :, None].transpose(1, 2, 0)
    return bool(np.array_equal(answers, np.broadcast_to(wanted, answers.shape)))


def _line(row: Real, zero_point: int) -> tuple[float, float] | None:
    """Slope and value at the zero point of a line that rounds to the row between its least and largest byte."""
    low, high = row.min(), row.max()
    if low == high:
        return None
    x = np.arange(256.0) - zero_point
    floor = np.where(row > low, row - 0.5, -np.inf)
    ceiling = np.where(row < high, row + 0.5, np.inf)

    def room(slope: float) -> tuple[float, float]:
        most, least = np.min(ceiling - slope * x), np.max(floor - slope * x)
        return most - least, (most + least) / 2

    first, last = (0.0, 256.0) if row[-1] > row[0] else (-256.0, 0.0)
    for _ in range(_STEPS):  # the room is a concave function of the slope
        left, right = first + (last - first) / 3, last - (last - first) / 3
        if room(left)[0] < room(right)[0]:
            first = left
        else:
            last = right
    slope = (first + last) / 2
    width, middle = room(slope)
    if slope == 0 or width < 0:
        return None
    return slope, middle
