"""What a chain of Reshape and Transpose does to a map: nothing, a channel order, Depth-to-Space or
Space-to-Depth.

Recognised from where the elements end up, whatever the modes are called: CRD, DCR and PixelUnshuffle differ
only in a permutation of channels before or behind.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.importer.axes import Axes
from compiler.ir import PLAIN, Value, View
from contracts.npu import Layout

Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shuffle:
    """First channels in the order ``before`` (None: as they are), then the move, then channels in the order
    ``behind``.
    """

    read: View = PLAIN
    write: View = PLAIN
    before: tuple[int, ...] | None = None
    behind: tuple[int, ...] | None = None


def recognise(value: Value, axes: Axes) -> Shuffle | None:
    """The shuffle that turns ``value`` into ``axes`` [1, C, H, W]; None when it is another one."""
    shape = axes.shape
    if len(shape) != 4 or shape[0] != 1:
        return None
    channel, row, col = (axes.offsets(axis) for axis in (1, 2, 3))
    if shape[2:] == (value.height, value.width):
        return _channels(value, channel, row, col)
    if shape[2] > value.height:
        return _depth_to_space(value, channel, row, col)
    return _space_to_depth(value, channel, row, col)


def _channels(value: Value, channel: Whole, row: Whole, col: Whole) -> Shuffle | None:
    plane = value.height * value.width
    rows, cols = np.arange(value.height) * value.width, np.arange(value.width)
    if not (np.array_equal(row, rows) and np.array_equal(col, cols)) or np.any(channel % plane):
        return None
    return Shuffle(before=_order(channel // plane))


def depth_to_space(block: int, order: Whole) -> Shuffle:
    """Depth-to-Space where output (k, dy, dx) reads channel ``order[k * block^2 + dy * block + dx]``."""
    return Shuffle(write=View(Layout.D2S, block), before=_order(order))


def space_to_depth(block: int, order: Whole) -> Shuffle:
    """Space-to-Depth where output channel p is channel ``order[p]`` of ONNX order."""
    return Shuffle(read=View(Layout.S2D, block), behind=_order(order))


def _depth_to_space(value: Value, channel: Whole, row: Whole, col: Whole) -> Shuffle | None:
    block, rest = divmod(len(row), value.height)
    plane = value.height * value.width
    if rest or len(col) != value.width * block:
        return None
    inner_row, inner_col = row[:block], col[:block]
    rows = (np.arange(value.height)[:, None] * value.width + inner_row).reshape(-1)
    cols = (np.arange(value.width)[:, None] + inner_col).reshape(-1)
    if not (np.array_equal(row, rows) and np.array_equal(col, cols)):
        return None
    sources = (channel[:, None, None] + inner_row[:, None] + inner_col[None, :]).reshape(-1)
    if np.any(sources % plane):
        return None
    return depth_to_space(block, sources // plane)


def _space_to_depth(value: Value, channel: Whole, row: Whole, col: Whole) -> Shuffle | None:
    block, rest = divmod(value.height, len(row))
    if rest or len(col) * block != value.width:
        return None
    if not np.array_equal(row, np.arange(len(row)) * value.width * block):
        return None
    if not np.array_equal(col, np.arange(len(col)) * block):
        return None
    source, inside = np.divmod(channel, value.height * value.width)
    dy, dx = np.divmod(inside, value.width)
    if np.any(dy >= block) or np.any(dx >= block):
        return None
    return space_to_depth(block, (dy * block + dx) * value.channels + source)


def _order(order: Whole) -> tuple[int, ...] | None:
    return None if np.array_equal(order, np.arange(len(order))) else tuple(int(k) for k in order)
