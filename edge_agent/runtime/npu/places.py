"""Moves bytes between a region's stored layout and the plain [h, w, c] arrays that engines take.

A reader gives a contiguous array: the memory itself where the layout allows, else scratch that steps fill
first. A writer is the same the other way. Invariants: nothing outside of the region is touched; a region
that leaves its memory is refused at load; steps allocate nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from contracts.npu.program import Layout
from edge_agent.runtime.npu.engines.base import Bytes, Step
from edge_agent.runtime.npu.errors import PlanViolation
from edge_agent.runtime.npu.limits import LIMITS
from edge_agent.runtime.npu.regions import Region
from edge_agent.runtime.npu.scratch import Scratch
from edge_agent.runtime.npu.shuffles import copy, paired, shuffle, unshuffle

_REMEDY = "the program's memory plan is wrong; compile again and report the build"


def views(memory: Bytes, region: Region, where: str) -> tuple[Bytes, ...]:
    """Return the stored bytes [rows, cols, channels] in place, one array for each run of the region.

    Raises PlanViolation when the region, or the ring that it is a part of, leaves the memory.
    """
    if region.offset + region.extent > memory.size:
        end = region.offset + region.extent
        raise PlanViolation(f"a region ends at byte {end} of a memory of {memory.size}", where, _REMEDY)
    return tuple(_view(memory, run) for run in region.runs)


def _view(memory: Bytes, run: Region) -> Bytes:
    flat = memory[run.offset : run.offset + run.extent]
    if run.dense:
        return flat.reshape(run.shape)
    strides = (run.row_stride, run.pixel_stride, 1)
    return np.lib.stride_tricks.as_strided(flat, run.shape, strides, writeable=memory.flags.writeable)


@dataclass(frozen=True)
class Place:
    """A contiguous [h, w, c] array that stands for a region, and the steps that connect the two."""

    array: Bytes
    steps: tuple[Step, ...] = ()


def reader(memory: Bytes, region: Region, where: str, scratch: Scratch, role: str) -> Place:
    """Return the logical tensor of `region`, ready after its steps."""
    stored = views(memory, region, where)
    if region.layout == Layout.NHWC and region.dense:
        return Place(stored[0])
    if region.layout == Layout.D2S:
        raise PlanViolation("layout D2S is for writing only", where, _REMEDY)
    logical = scratch.take(role, region.logical)
    if region.layout == Layout.NHWC:
        return Place(logical, tuple(copy(part, view) for part, view in _by_rows(logical, stored)))
    gathered: tuple[Step, ...] = ()
    if len(stored) > 1:
        whole = scratch.take(f"{role} stored", region.shape)
        gathered = tuple(copy(part, view) for part, view in _by_rows(whole, stored))
        stored = (whole,)
    (source,) = stored
    if source.flags.c_contiguous and logical.size <= LIMITS.largest_index_map:
        return Place(logical, (*gathered, shuffle(region.layout, region.block, source, logical)))
    return Place(logical, (*gathered, copy(*paired(region.layout, region.block, logical, source))))


def writer(memory: Bytes, region: Region, where: str, scratch: Scratch, role: str) -> Place:
    """Return a contiguous array for the logical tensor; its steps store it."""
    stored = views(memory, region, where)
    if region.layout == Layout.NHWC and region.dense:
        return Place(stored[0])
    if region.layout in (Layout.S2D, Layout.NEAREST):
        raise PlanViolation(f"layout {Layout(region.layout).name} is for reading only", where, _REMEDY)
    logical = scratch.take(role, region.logical)
    if region.layout == Layout.NHWC:
        return Place(logical, tuple(copy(view, part) for part, view in _by_rows(logical, stored)))
    if region.dense:
        return Place(logical, (unshuffle(logical, stored[0], region.block),))
    whole = scratch.take(f"{role} stored", region.shape)
    scattered = (copy(view, part) for part, view in _by_rows(whole, stored))
    return Place(logical, (unshuffle(logical, whole, region.block), *scattered))


def copy_steps(target: tuple[Bytes, ...], source: tuple[Bytes, ...], where: str) -> tuple[Step, ...]:
    """Return steps that copy `source` over `target`, element by element in row-major order."""
    shapes = [(sum(len(part) for part in parts), *parts[0].shape[1:]) for parts in (target, source)]
    if shapes[0] == shapes[1]:
        return tuple(copy(*pair) for pair in _aligned(target, source))
    plain = all(len(parts) == 1 and parts[0].flags.c_contiguous for parts in (target, source))
    if not plain or target[0].size != source[0].size:
        raise PlanViolation(f"a copy from {shapes[1]} to {shapes[0]}", where, _REMEDY)
    return (copy(target[0].reshape(-1), source[0].reshape(-1)),)


def _by_rows(whole: Bytes, parts: tuple[Bytes, ...]) -> list[tuple[Bytes, Bytes]]:
    """Return `parts`, each with the rows of `whole` that it stands for."""
    pairs, row = [], 0
    for part in parts:
        pairs.append((whole[row : row + len(part)], part))
        row += len(part)
    return pairs


def _aligned(one: tuple[Bytes, ...], other: tuple[Bytes, ...]) -> list[tuple[Bytes, Bytes]]:
    """Return pairs of equal rows of two tensors that are cut at different rows."""
    pairs = []
    ones, others = list(one), list(other)
    while ones:
        count = min(len(ones[0]), len(others[0]))
        pairs.append((ones[0][:count], others[0][:count]))
        for parts in (ones, others):
            parts[0] = parts[0][count:]
            if not len(parts[0]):
                del parts[0]
    return pairs
