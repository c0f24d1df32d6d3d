"""Space-to-Depth, Depth-to-Space and nearest repetition as steps (docs/reference/arithmetic.md, "Moving
data").

Small contiguous tensors go through an index map, which NumPy gathers faster than it walks six strides; large
or strided ones through a strided copy. Both move the same bytes.
"""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from contracts.npu.program import Layout
from edge_agent.runtime.npu.engines.base import Bytes, Step
from edge_agent.runtime.npu.limits import LIMITS


def copy(target: Bytes, source: Bytes) -> Step:
    """Return a step that copies `source` over `target`; axes of length 1 are repeated, as NumPy does."""
    if target.shape == source.shape and target.flags.c_contiguous and source.flags.c_contiguous:
        target, source = target.reshape(-1), source.reshape(-1)
    return partial(np.copyto, target, source)


def shuffle(layout: int, block: int, source: Bytes, target: Bytes) -> Step:
    """Return a step that gathers a contiguous stored image into the contiguous logical tensor."""
    return _take(source, _index_map(layout, block, source.shape), target)


def unshuffle(source: Bytes, target: Bytes, block: int) -> Step:
    """Return a step: DepthToSpace (CRD) from contiguous [h, w, c*b*b] to contiguous [h*b, w*b, c]."""
    if target.size <= LIMITS.largest_index_map:
        return _take(source, _index_map(Layout.D2S, block, source.shape), target)
    height, width, depth = source.shape
    parts = source.reshape(height, width, depth // block**2, block, block).transpose(0, 3, 1, 4, 2)
    return copy(target.reshape(height, block, width, block, depth // block**2), parts)


def paired(layout: int, block: int, logical: Bytes, stored: Bytes) -> tuple[Bytes, Bytes]:
    """Return (target, source) views of one shape, so that a copy applies the read layout."""
    rows, cols, channels = stored.shape
    row, pixel, _ = stored.strides
    if layout == Layout.S2D:
        high, wide = rows // block, cols // block
        shape, strides = (high, wide, block, block, channels), (row * block, pixel * block, row, pixel, 1)
        return logical.reshape(shape), np.lib.stride_tricks.as_strided(stored, shape, strides)
    return logical.reshape(rows, block, cols, block, channels), stored[:, None, :, None, :]


@lru_cache(maxsize=LIMITS.cached_index_maps)
def _index_map(layout: int, block: int, shape: tuple[int, ...]) -> NDArray[np.intp]:
    """Return, for each byte of the result, its place in a contiguous source of `shape`; shared by the
    process.
    """
    places = np.arange(int(np.prod(shape)), dtype=np.intp).reshape(shape)
    height, width, depth = shape
    if layout == Layout.S2D:
        parts = places.reshape(height // block, block, width // block, block, depth).transpose(0, 2, 1, 3, 4)
    elif layout == Layout.D2S:
        parts = places.reshape(height, width, depth // block**2, block, block).transpose(0, 3, 1, 4, 2)
    else:
        parts = places.repeat(block, axis=0).repeat(block, axis=1)
    result = np.ascontiguousarray(parts).reshape(-1)
    result.setflags(write=False)
    return result


def _take(source: Bytes, places: NDArray[np.intp], target: Bytes) -> Step:
    flat, out = source.reshape(-1), target.reshape(-1)
    return partial(flat.take, places, None, out, "clip")
