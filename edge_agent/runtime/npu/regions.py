"""Finds a command's REGION in memory and moves bytes between its stored layout and plain [h, w, c] arrays.

A reader gives engines a contiguous array: the memory itself where the layout allows, else a scratch array
that a step fills first. A writer is the same the other way. Invariants: nothing outside of the region is
touched; a region that leaves its memory is refused at load; steps allocate nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from contracts.npu.program import Layout
from edge_agent.runtime.npu.engines.base import Bytes, Step
from edge_agent.runtime.npu.errors import PlanViolation
from edge_agent.runtime.npu.limits import LIMITS

_REMEDY = "the program's memory plan is wrong; compile again and report the build"


@dataclass(frozen=True)
class Region:
    """A decoded REGION: stored extents and strides in bytes."""

    space: int
    layout: int
    block: int
    offset: int
    rows: int
    cols: int
    channels: int
    row_stride: int
    pixel_stride: int

    @property
    def extent(self) -> int:
        """Bytes from the first to behind the last."""
        return (self.rows - 1) * self.row_stride + (self.cols - 1) * self.pixel_stride + self.channels

    @property
    def shape(self) -> tuple[int, int, int]:
        """Stored extents."""
        return self.rows, self.cols, self.channels

    def stored(self) -> Region:
        """The same bytes as a plain image."""
        return replace(self, layout=int(Layout.NHWC), block=0)

    @property
    def dense(self) -> bool:
        """Whether the stored bytes are contiguous."""
        packed = self.pixel_stride == self.channels or self.cols == 1
        return packed and (self.row_stride == self.cols * self.channels or self.rows == 1)

    @property
    def logical(self) -> tuple[int, int, int]:
        """Extents of the tensor that the command sees."""
        block = self.block
        if self.layout in (Layout.S2D, Layout.D2S):
            return self.rows // block, self.cols // block, self.channels * block * block
        if self.layout == Layout.NEAREST:
            return self.rows * block, self.cols * block, self.channels
        return self.shape


def decode_region(raw: np.void, where: str) -> Region:
    """Read a REGION; raises PlanViolation when its own fields contradict each other."""
    region = Region(*(int(raw[name]) for name in Region.__dataclass_fields__))
    if min(region.shape) < 1:
        raise PlanViolation(f"an empty region {region}", where, _REMEDY)
    if region.layout not in tuple(Layout) or (region.layout != Layout.NHWC and region.block < 1):
        raise PlanViolation(f"unknown layout {region.layout}, block {region.block}", where, _REMEDY)
    if region.layout != Layout.NHWC and region.block > LIMITS.largest_block:
        raise PlanViolation(f"block {region.block} is over {LIMITS.largest_block}", where, _REMEDY)
    overlapping = region.pixel_stride < region.channels and region.cols > 1
    line = (region.cols - 1) * region.pixel_stride + region.channels
    if overlapping or (region.row_stride < line and region.rows > 1):
        raise PlanViolation(f"strides {region.row_stride}, {region.pixel_stride} overlap", where, _REMEDY)
    divided = region.layout in (Layout.S2D, Layout.D2S)
    if divided and (region.rows % region.block or region.cols % region.block):
        raise PlanViolation(f"{region.rows}x{region.cols} is no multiple of block {region.block}", where, _REMEDY)
    return region


def view(memory: Bytes, region: Region, where: str) -> Bytes:
    """Return the stored bytes [rows, cols, channels] in place; raises PlanViolation when they leave the
    memory.
    """
    if region.offset + region.extent > memory.size:
        end = region.offset + region.extent
        raise PlanViolation(f"a region ends at byte {end} of a memory of {memory.size}", where, _REMEDY)
    flat = memory[region.offset : region.offset + region.extent]
    strides = (region.row_stride, region.pixel_stride, 1)
    return np.lib.stride_tricks.as_strided(flat, region.shape, strides, writeable=memory.flags.writeable)


@dataclass(frozen=True)
class Place:
    """A contiguous [h, w, c] array that stands for a region, and the steps that connect the two."""

    array: Bytes
    steps: tuple[Step, ...] = ()


def reader(memory: Bytes, region: Region, where: str) -> Place:
    """Return the logical tensor of `region`, ready after its steps."""
    stored = view(memory, region, where)
    if region.layout == Layout.NHWC and region.dense:
        return Place(memory[region.offset : region.offset + region.extent].reshape(region.shape))
    if region.layout == Layout.D2S:
        raise PlanViolation("layout D2S is for writing only", where, _REMEDY)
    scratch = np.empty(region.logical, np.uint8)
    if region.layout != Layout.NHWC and region.dense and scratch.size <= LIMITS.largest_index_map:
        flat = memory[region.offset : region.offset + region.extent]
        return Place(scratch, (_take(flat, _index_map(region.layout, region.block, region.shape), scratch),))
    target, source = _paired(region, scratch, stored)
    return Place(scratch, (_copy(target, source),))


def writer(memory: Bytes, region: Region, where: str) -> Place:
    """Return a contiguous array for the logical tensor; its steps store it."""
    stored = view(memory, region, where)
    if region.layout == Layout.NHWC and region.dense:
        return Place(memory[region.offset : region.offset + region.extent].reshape(region.shape))
    if region.layout in (Layout.S2D, Layout.NEAREST):
        raise PlanViolation(f"layout {Layout(region.layout).name} is for reading only", where, _REMEDY)
    scratch = np.empty(region.logical, np.uint8)
    if region.layout == Layout.NHWC:
        return Place(scratch, (_copy(stored, scratch),))
    if region.dense:
        flat = memory[region.offset : region.offset + region.extent].reshape(region.shape)
        return Place(scratch, (unshuffle(scratch, flat, region.block),))
    interim = np.empty(region.shape, np.uint8)
    return Place(scratch, (unshuffle(scratch, interim, region.block), _copy(stored, interim)))


def unshuffle(source: Bytes, target: Bytes, block: int) -> Step:
    """Return a step: DepthToSpace (CRD) from contiguous [h, w, c*b*b] to contiguous [h*b, w*b, c]."""
    if target.size <= LIMITS.largest_index_map:
        return _take(source, _index_map(Layout.D2S, block, source.shape), target)
    height, width, depth = source.shape
    parts = source.reshape(height, width, depth // block**2, block, block).transpose(0, 3, 1, 4, 2)
    return _copy(target.reshape(height, block, width, block, depth // block**2), parts)


def _paired(region: Region, scratch: Bytes, stored: Bytes) -> tuple[Bytes, Bytes]:
    """Return (target, source) views of one shape, so that a copy applies the read layout."""
    block = region.block
    rows, cols, channels = region.shape
    row, pixel = region.row_stride, region.pixel_stride
    if region.layout == Layout.S2D:
        high, wide = rows // block, cols // block
        shape, strides = (high, wide, block, block, channels), (row * block, pixel * block, row, pixel, 1)
        return scratch.reshape(shape), np.lib.stride_tricks.as_strided(stored, shape, strides)
    if region.layout == Layout.NEAREST:
        return scratch.reshape(rows, block, cols, block, channels), stored[:, None, :, None, :]
    return scratch, stored


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
    return lambda: flat.take(places, out=out, mode="clip")


def _copy(target: Bytes, source: Bytes) -> Step:
    return lambda: np.copyto(target, source)


def copy_step(target: Bytes, source: Bytes, where: str) -> Step:
    """Return a step that copies `source` over `target`, element by element in row-major order."""
    if target.shape == source.shape:
        return _copy(target, source)
    contiguous = target.flags.c_contiguous and source.flags.c_contiguous
    if target.size != source.size or not contiguous:
        raise PlanViolation(f"a copy from {source.shape} to {target.shape}", where, _REMEDY)
    return _copy(target.reshape(-1), source.reshape(-1))
