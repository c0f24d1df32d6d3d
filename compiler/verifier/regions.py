"""Geometry of regions: extents, byte spans, and the rules that concern one region alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from contracts.npu import Layout, Space

MAX_EXTENT = 1 << 20


@dataclass(frozen=True)
class Region:
    """A region as plain integers. ``start`` and ``end`` bound the bytes that it touches."""

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

    @staticmethod
    def of(raw: np.void) -> Region:
        """From the structure in the stream."""
        return Region(*(int(raw[name]) for name in raw.dtype.names or ()))

    @property
    def start(self) -> int:
        """First byte."""
        return self.offset

    @property
    def end(self) -> int:
        """One past the last byte."""
        last = (self.rows - 1) * self.row_stride + (self.cols - 1) * self.pixel_stride
        return self.offset + last + self.channels

    @property
    def logical(self) -> tuple[int, int, int]:
        """Rows, cols, channels of the logical tensor."""
        if self.layout in (Layout.S2D, Layout.D2S):
            return self.rows // self.block, self.cols // self.block, self.channels * self.block**2
        if self.layout == Layout.NEAREST:
            return self.rows * self.block, self.cols * self.block, self.channels
        return self.rows, self.cols, self.channels

    @property
    def geometry(self) -> tuple[int, int, int, int, int, int, int]:
        """What a reader must share with the writer: everything but the layout."""
        return (
            self.space,
            self.offset,
            self.rows,
            self.cols,
            self.channels,
            self.row_stride,
            self.pixel_stride,
        )

    def meets(self, other: Region) -> bool:
        """Whether the bounding spans share a byte of the same space."""
        return self.space == other.space and self.start < other.end and other.start < self.end

    def holds(self, other: Region) -> bool:
        """Whether ``other`` lies inside this contiguous region."""
        return self.space == other.space and self.start <= other.start and other.end <= self.end


def span(space: Space, offset: int, size: int) -> Region:
    """A contiguous run of bytes."""
    return Region(space, Layout.NHWC, 0, offset, 1, 1, size, size, size)


def problem(region: Region, sizes: dict[int, int], alignment: int, layouts: tuple[Layout, ...]) -> str | None:
    """The first rule that the region breaks on its own; None when it is sound."""
    if region.space not in sizes:
        return f"space {region.space} is not allowed here"
    if region.layout not in layouts:
        return f"layout {region.layout} is not allowed here"
    if not all(0 < extent <= MAX_EXTENT * 64 for extent in (region.rows, region.cols, region.channels)):
        return f"extents {region.rows}x{region.cols}x{region.channels}"
    if region.layout != Layout.NHWC and not _block_divides(region):
        return f"block {region.block} does not suit {region.rows}x{region.cols}"
    if region.pixel_stride < region.channels and region.cols > 1:
        return "pixels overlap each other"
    if region.row_stride < (region.cols - 1) * region.pixel_stride + region.channels and region.rows > 1:
        return "rows overlap each other"
    if region.end > sizes[region.space]:
        return f"ends at {region.end}, the space has {sizes[region.space]} bytes"
    if region.offset % alignment:
        return f"offset {region.offset} is not a multiple of {alignment}"
    return None


def _block_divides(region: Region) -> bool:
    if not 1 <= region.block <= 16:
        return False
    return region.layout == Layout.NEAREST or not (region.rows % region.block or region.cols % region.block)
