"""Reshape and Transpose without moving a byte: each axis of a tensor as factors of a stored map.

A tensor of any rank is a map H x W x C seen through factors ``(size, stride)``, where the stride counts
elements of the map in NCHW order. Reshape splits and joins factors, Transpose reorders axes; at the end
``offsets`` says which element lies where, so that a shuffle is recognised by what it does, not by how it was
written. Size-1 factors are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.ir import Value

Factor = tuple[int, int]


@dataclass(frozen=True)
class Axes:
    """One tuple of factors for each axis, outermost first."""

    dims: tuple[tuple[Factor, ...], ...]

    @staticmethod
    def of(value: Value) -> Axes:
        """The four axes 1, C, H, W of a map."""
        plane = value.height * value.width
        factors = ((value.channels, plane), (value.height, value.width), (value.width, 1))
        return Axes(((), *(_joined([factor]) for factor in factors)))

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return tuple(_size(dim) for dim in self.dims)

    def transposed(self, order: Sequence[int]) -> Axes:
        """The axes in another order."""
        return Axes(tuple(self.dims[axis] for axis in order))

    def reshaped(self, shape: Sequence[int]) -> Axes | None:
        """The same elements under another shape; None when an extent cuts through a factor."""
        left = [factor for dim in self.dims for factor in dim]
        dims: list[tuple[Factor, ...]] = []
        for extent in shape:
            taken = _take(left, extent)
            if taken is None:
                return None
            dims.append(_joined(taken))
        return None if left else Axes(tuple(dims))

    def offsets(self, axis: int) -> npt.NDArray[np.int64]:
        """Where the axis' indices point in the map, in elements of NCHW order."""
        result = np.zeros(1, np.int64)
        for size, stride in self.dims[axis]:
            result = (result[:, None] + np.arange(size, dtype=np.int64) * stride).reshape(-1)
        return result


def _take(left: list[Factor], extent: int) -> list[Factor] | None:
    """Take factors from the front of ``left`` until their product is ``extent``, splitting the last one."""
    taken: list[Factor] = []
    while extent > 1:
        if not left:
            return None
        size, stride = left[0]
        if extent % size == 0:
            taken.append(left.pop(0))
            extent //= size
        elif size % extent == 0:
            inner = size // extent
            taken.append((extent, stride * inner))
            left[0] = (inner, stride)
            extent = 1
        else:
            return None
    return taken


def _joined(factors: Sequence[Factor]) -> tuple[Factor, ...]:
    """Neighbours that step through the map evenly become one factor."""
    result: list[Factor] = []
    for size, stride in factors:
        if size == 1:
            continue
        if result and result[-1][1] == size * stride:
            result[-1] = (result[-1][0] * size, stride)
        else:
            result.append((size, stride))
    return tuple(result)


def _size(dim: Sequence[Factor]) -> int:
    total = 1
    for size, _ in dim:
        total *= size
    return total
