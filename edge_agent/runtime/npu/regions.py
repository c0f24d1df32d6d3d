"""A decoded REGION: which bytes of a memory a command reads or writes, and in which order.

A region may be a run of rows of a ring (docs/reference/program.md, "Region"): `runs` gives the same rows as
one or two plain regions, so that whoever moves bytes never counts modulo. Invariants: a region whose own
fields contradict each other is refused when it is decoded; every other module asks this one where bytes lie.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from contracts.npu.program import Layout, Space
from edge_agent.runtime.npu.errors import PlanViolation
from edge_agent.runtime.npu.limits import LIMITS

_REMEDY = "the program's memory plan is wrong; compile again and report the build"
_RING_SPACES = (Space.SRAM, Space.DDR)


@dataclass(frozen=True)
class Region:
    """Stored extents and strides in bytes; `ring_rows` > 0: rows of a buffer of so many rows at `offset`."""

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
    def line(self) -> int:
        """Bytes from a row's first to behind its last."""
        return (self.cols - 1) * self.pixel_stride + self.channels

    @property
    def extent(self) -> int:
        """Bytes from the first to behind the last; of the whole buffer when it is a ring."""
        return ((self.ring_rows or self.rows) - 1) * self.row_stride + self.line

    @property
    def shape(self) -> tuple[int, int, int]:
        """Stored extents."""
        return self.rows, self.cols, self.channels

    @cached_property
    def runs(self) -> tuple[Region, ...]:
        """The rows as plain regions, in order: one, or two when they pass the end of the ring."""
        if not self.ring_rows:
            return (self,)
        start = self.offset + self.ring_first * self.row_stride
        upper = min(self.rows, self.ring_rows - self.ring_first)
        first = replace(self, offset=start, rows=upper, ring_rows=0, ring_first=0)
        if upper == self.rows:
            return (first,)
        return first, replace(first, offset=self.offset, rows=self.rows - upper)

    def stored(self) -> Region:
        """The same bytes as a plain image."""
        return replace(self, layout=int(Layout.NHWC), block=0)

    @property
    def dense(self) -> bool:
        """Whether the stored bytes are contiguous and in order."""
        packed = self.pixel_stride == self.channels or self.cols == 1
        wraps = self.ring_first + self.rows > self.ring_rows > 0
        return packed and not wraps and (self.row_stride == self.cols * self.channels or self.rows == 1)

    @cached_property
    def logical(self) -> tuple[int, int, int]:
        """Extents of the tensor that the command sees."""
        block = self.block
        if self.layout in (Layout.S2D, Layout.D2S):
            return self.rows // block, self.cols // block, self.channels * block * block
        if self.layout == Layout.NEAREST:
            return self.rows * block, self.cols * block, self.channels
        return self.shape


def make_region(fields: Mapping[str, int], where: str) -> Region:
    """Return the region of these fields; raises PlanViolation when they contradict each other."""
    region = Region(**fields)
    if min(region.shape) < 1:
        raise PlanViolation(f"an empty region {region}", where, _REMEDY)
    _check_layout(region, where)
    if math.prod(region.logical) > LIMITS.largest_tensor:
        raise PlanViolation(f"a tensor of {region.logical}, over {LIMITS.largest_tensor} bytes", where, _REMEDY)
    overlapping = region.pixel_stride < region.channels and region.cols > 1
    if overlapping or (region.row_stride < region.line and max(region.rows, region.ring_rows) > 1):
        raise PlanViolation(f"strides {region.row_stride}, {region.pixel_stride} overlap", where, _REMEDY)
    _check_ring(region, where)
    return region


def _check_layout(region: Region, where: str) -> None:
    if region.layout not in tuple(Layout) or (region.layout != Layout.NHWC and region.block < 1):
        raise PlanViolation(f"unknown layout {region.layout}, block {region.block}", where, _REMEDY)
    if region.layout != Layout.NHWC and region.block > LIMITS.largest_block:
        raise PlanViolation(f"block {region.block} is over {LIMITS.largest_block}", where, _REMEDY)
    divided = region.layout in (Layout.S2D, Layout.D2S)
    if divided and (region.rows % region.block or region.cols % region.block):
        raise PlanViolation(f"{region.rows}x{region.cols} is no multiple of block {region.block}", where, _REMEDY)


def _check_ring(region: Region, where: str) -> None:
    if not region.ring_rows:
        if region.ring_first:
            raise PlanViolation(f"row {region.ring_first} of a ring that has no rows", where, _REMEDY)
        return
    if region.space not in _RING_SPACES:
        raise PlanViolation("a ring outside of SRAM and DDR", where, _REMEDY)
    if region.rows > region.ring_rows or region.ring_first >= region.ring_rows:
        rows = f"{region.rows} rows from row {region.ring_first}"
        raise PlanViolation(f"{rows} of a ring of {region.ring_rows}", where, _REMEDY)


def same_place(one: Region, other: Region) -> bool:
    """Whether two regions are the same bytes in the same order, however they are written down."""
    return one.runs == other.runs


def overlap(one: Region, other: Region) -> bool:
    """Whether two regions share a byte."""
    if one.space != other.space:
        return False
    return any(_touch(a, b) for a in one.runs for b in other.runs)


def _touch(one: Region, other: Region) -> bool:
    if one.offset >= other.offset + other.extent or other.offset >= one.offset + one.extent:
        return False
    return not _interleaved(one, other)


def _interleaved(one: Region, other: Region) -> bool:
    """Whether the two are different channels of the same pixels (as the parts of a concatenation are)."""
    pitch = one.pixel_stride
    if not pitch or pitch != other.pixel_stride or one.row_stride % pitch or other.row_stride % pitch:
        return False
    ahead = (other.offset - one.offset) % pitch
    return one.channels <= ahead <= pitch - other.channels
