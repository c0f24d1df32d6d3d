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


def mixed_reads(commands: list[Command], spec: NpuSpec) -> Iterator[str]:
    """Yield each read of a tensor that another tensor, of other pixels, partly or wholly overwrote."""
    owner = np.full(spec.sram_bytes, _UNWRITTEN, np.int64)
    for command in commands:
        for region in (command.source, command.residual):
            if region is None or region.space != Space.SRAM:
                continue
            for writer in np.unique(owner[bytes_of(region)]):
                if writer != _UNWRITTEN and not _same_grid(region, commands[int(writer)].target):
                    other = commands[int(writer)].where
                    yield f"{command.where} reads as {region.shape} what {other} wrote as another tensor"
        if command.target.space == Space.SRAM:
            owner[bytes_of(command.target)] = command.index


def bytes_of(region: Region) -> NDArray[np.intp]:
    """Return the offsets of the region's bytes."""
    rows = np.arange(region.rows, dtype=np.intp)[:, None, None] * region.row_stride
    cols = np.arange(region.cols, dtype=np.intp)[:, None] * region.pixel_stride
    return (region.offset + rows + cols + np.arange(region.channels, dtype=np.intp)).reshape(-1)


def _same_grid(read: Region, written: Region) -> bool:
    """Whether two regions count the same pixels: equal strides and channels, starts a whole number of pixels
    apart.
    """
    flat = written.rows == written.cols == 1  # a plain copy of bytes has no pixels
    if flat or (read.rows == read.cols == 1):
        return True
    same = (read.row_stride, read.pixel_stride, read.channels) == (
        written.row_stride,
        written.pixel_stride,
        written.channels,
    )
    return same and (read.offset - written.offset) % read.pixel_stride == 0
