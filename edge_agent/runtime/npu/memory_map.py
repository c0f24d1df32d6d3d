"""Follows which bytes of the SRAM hold the program's own constants, command by command.

Why: a convolution whose weights are the same constants in every frame is compiled once and shared by content;
one whose weights are streamed or overwritten is read from the arena each time. Both are literal; this module
decides.
"""

from __future__ import annotations

from contracts.npu.program import Op, Space
from edge_agent.runtime.npu.commands import Command
from edge_agent.runtime.npu.regions import Region

CONSTANT_SPACES = (Space.CONST, Space.QUANT)


class ConstantMap:
    """Half-open byte ranges of the SRAM that hold constants, kept sorted and disjoint."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []

    def write(self, command: Command) -> None:
        """Take over what `command` writes."""
        if command.target.space != Space.SRAM:
            return
        low, high = command.target.offset, command.target.offset + command.target.extent
        kept = [piece for old in self._ranges for piece in _without(old, low, high)]
        if is_constant_load(command):
            kept.append((low, high))
        self._ranges = _joined(kept)

    def covers(self, offset: int, size: int) -> bool:
        """Whether all `size` bytes from `offset` are constants."""
        return any(low <= offset and offset + size <= high for low, high in self._ranges)


def is_constant_load(command: Command) -> bool:
    """Whether `command` copies constants of the program, densely, into the SRAM."""
    dense = command.source.dense and command.target.dense
    return command.op is Op.DMA and command.source.space in CONSTANT_SPACES and dense


def overlap(one: Region, other: Region) -> bool:
    """Whether the hulls of two regions share a byte."""
    if one.space != other.space:
        return False
    return one.offset < other.offset + other.extent and other.offset < one.offset + one.extent


def _without(old: tuple[int, int], low: int, high: int) -> list[tuple[int, int]]:
    pieces = [(old[0], min(old[1], low)), (max(old[0], high), old[1])]
    return [piece for piece in pieces if piece[0] < piece[1]]


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    result: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if result and result[-1][1] >= low:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return result
