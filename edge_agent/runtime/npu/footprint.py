"""Which bytes of the SRAM a region covers, and which command wrote what another one reads.

Works on the command stream alone, so that it checks the compiler's plan without trusting the compiler's
records.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from contracts.npu.program import Space
from contracts.npu.spec import NpuSpec
from edge_agent.runtime.npu.commands import Command
from edge_agent.runtime.npu.regions import Region

_UNWRITTEN = -1
_Owners = NDArray[np.int32]


def mixed_reads(commands: list[Command], spec: NpuSpec) -> Iterator[str]:
    """Yield each read of a tensor that another tensor, of other pixels, partly or wholly overwrote."""
    owner = np.full(spec.sram_bytes, _UNWRITTEN, np.int32)
    for command in commands:
        for region in command.reads:
            if region.space != Space.SRAM:
                continue
            for writer in _writers(owner, region):
                if not _same_grid(region, commands[writer].target):
                    other = commands[writer].where
                    yield f"{command.where} reads as {region.shape} what {other} wrote as another tensor"
        if command.target.space == Space.SRAM:
            for rows in _lines(owner, command.target):
                rows[...] = command.index


def _lines(memory: _Owners, region: Region) -> Iterator[_Owners]:
    """Yield views of the region's bytes: whole runs where they are contiguous, else [rows, cols, channels]."""
    for run in region.runs:
        flat = memory[run.offset : run.offset + run.extent]
        if run.dense:
            yield flat
            continue
        strides = tuple(flat.itemsize * step for step in (run.row_stride, run.pixel_stride, 1))
        yield np.lib.stride_tricks.as_strided(flat, run.shape, strides)


def _writers(owner: _Owners, region: Region) -> list[int]:
    """Return the commands that wrote the region's bytes, in order."""
    found: set[int] = set()
    for part in _lines(owner, region):
        flat = part.reshape(-1)
        changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
        found.update(int(flat[place]) for place in (0, *changes))
    return sorted(found - {_UNWRITTEN})


def _same_grid(read: Region, written: Region) -> bool:
    """Whether two regions count the same pixels: equal strides, and channels that lie in one pixel. Both may be
    windows of one map, as the parts of a concatenation are.
    """
    flat = written.rows == written.cols == 1  # a plain copy of bytes has no pixels
    if flat or (read.rows == read.cols == 1):
        return True
    pitch = read.pixel_stride
    if (read.row_stride, pitch) != (written.row_stride, written.pixel_stride):
        return False
    ahead = (read.offset - written.offset) % read.row_stride % pitch
    return ahead + read.channels <= pitch or (pitch - ahead) + written.channels <= pitch
