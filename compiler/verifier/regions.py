"""Geometry of regions: extents, the bytes of each row, and the rules that concern one region alone.

A region is looked at row by row, because rings make its bounding box meaningless: a run that wraps covers the
tail and the head of its buffer and nothing between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from compiler.verifier.limits import LIMITS
from contracts.npu import Layout, Space


class Region(NamedTuple):
    """A region as plain integers, in the order of the structure in the stream."""

    space: int
    layout: int
    block: int
    offset: int
    rows: int
    cols: int
    channels: int
    row_stride: int
    pixel_stride: int
    ring_rows: int = 0
    ring_first: int = 0

    @property
    def row_bytes(self) -> int:
        """From the first to behind the last byte of a row."""
        return (self.cols - 1) * self.pixel_stride + self.channels

    @property
    def end(self) -> int:
        """One past the last byte of the region; of its whole buffer when it is a run of one."""
        return self.offset + ((self.ring_rows or self.rows) - 1) * self.row_stride + self.row_bytes

    @property
    def size(self) -> int:
        """Elements of one access."""
        return self.rows * self.cols * self.channels

    @property
    def dense(self) -> bool:
        """Whether the bytes are one contiguous run."""
        packed = self.cols == 1 or self.pixel_stride == self.channels
        return packed and not self.ring_rows and (self.rows == 1 or self.row_stride == self.cols * self.channels)

    @property
    def window(self) -> bool:
        """Whether the region is visibly a part of larger rows: some columns, or some channels of each
        pixel.
        """
        return self.pixel_stride > self.channels or self.row_stride > self.cols * self.pixel_stride

    @property
    def logical(self) -> tuple[int, int, int]:
        """Rows, cols, channels of the logical tensor."""
        if self.layout in (Layout.S2D, Layout.D2S):
            return self.rows // self.block, self.cols // self.block, self.channels * self.block**2
        if self.layout == Layout.NEAREST:
            return self.rows * self.block, self.cols * self.block, self.channels
        return self.rows, self.cols, self.channels

    def split(self, parts: int) -> list[Region]:
        """An image without a ring as that many runs of rows; itself when they do not divide it."""
        if parts < 1 or self.ring_rows or self.rows % parts:
            return [self]
        rows = self.rows // parts
        return [self._replace(rows=rows, offset=self.offset + part * rows * self.row_stride) for part in range(parts)]

    def starts(self) -> Sequence[int]:
        """First byte of each row, from the top."""
        if self.rows == 1 and not self.ring_rows:
            return (self.offset,)
        if not self.ring_rows:
            return range(self.offset, self.offset + self.rows * self.row_stride, self.row_stride)
        offset, stride, ring, first = self.offset, self.row_stride, self.ring_rows, self.ring_first
        if first + self.rows <= ring:
            low = offset + first * stride
            return range(low, low + self.rows * stride, stride) if self.rows > 1 else (low,)
        return [offset + row % ring * stride for row in range(first, first + self.rows)]

    def same_place(self, other: Region) -> bool:
        """Whether both name the same bytes in the same order, as plain images."""
        plain = self.layout == other.layout == Layout.NHWC
        same = self.space == other.space and self.cols == other.cols and self.channels == other.channels
        packed = self.cols == 1 or self.pixel_stride == other.pixel_stride
        return plain and same and packed and list(self.starts()) == list(other.starts())

    def meets(self, other: Region) -> bool:
        """Whether the regions share a byte; exact for runs of rings and for channels of the same pixels."""
        if self.space != other.space or self.offset >= other.end or other.offset >= self.end:
            return False
        mine, theirs = sorted(self.starts()), sorted(other.starts())
        place = 0
        for start in mine:
            while place < len(theirs) and theirs[place] + other.row_bytes <= start:
                place += 1
            for at in theirs[place:]:
                if at >= start + self.row_bytes:
                    break
                if not self._interleaves(other, at - start):
                    return True
        return False

    def _interleaves(self, other: Region, shift: int) -> bool:
        """Whether two rows whose spans meet are different channels of the same pixels."""
        if self.pixel_stride != other.pixel_stride:
            return False
        shift %= self.pixel_stride
        return shift >= self.channels and shift + other.channels <= self.pixel_stride


def span(space: Space, offset: int, size: int) -> Region:
    """A contiguous run of bytes."""
    return Region(space, Layout.NHWC, 0, offset, 1, 1, size, size, size)


def image(offset: int, height: int, width: int, channels: int) -> Region:
    """A dense image in DDR."""
    return Region(Space.DDR, Layout.NHWC, 0, offset, height, width, channels, width * channels, channels)


def problem(region: Region, sizes: dict[int, int], layouts: tuple[Layout, ...]) -> str | None:
    """The first rule that the region breaks on its own; None when it is sound."""
    if region.space not in sizes:
        return f"space {region.space} is not allowed here"
    if region.layout not in layouts:
        return f"layout {region.layout} is not allowed here"
    extents = (region.rows, region.cols, region.channels)
    if min(extents) < 1 or max(extents[:2]) > LIMITS.extent or region.channels > LIMITS.channels:
        return f"extents {region.rows}x{region.cols}x{region.channels}"
    if not _block_suits(region):
        return f"block {region.block} does not suit {region.rows}x{region.cols} of layout {region.layout}"
    if region.pixel_stride < region.channels and region.cols > 1:
        return "pixels overlap each other"
    if region.row_stride < region.row_bytes and (region.rows > 1 or region.ring_rows > 1):
        return "rows overlap each other"
    trouble = _ring_problem(region)
    if trouble:
        return trouble
    if region.end > sizes[region.space]:
        return f"ends at {region.end}, the space has {sizes[region.space]} bytes"
    return None


def _ring_problem(region: Region) -> str | None:
    if not region.ring_rows:
        return f"first row {region.ring_first} of no ring" if region.ring_first else None
    if region.space in (Space.CONST, Space.QUANT):
        return "constants lie in no ring"
    if region.rows > region.ring_rows or region.ring_first >= region.ring_rows:
        return f"{region.rows} rows from row {region.ring_first} of a ring of {region.ring_rows}"
    return None


def _block_suits(region: Region) -> bool:
    if region.layout == Layout.NHWC:
        return region.block == 0
    if not 1 <= region.block <= LIMITS.block:
        return False
    return region.layout == Layout.NEAREST or not (region.rows % region.block or region.cols % region.block)
