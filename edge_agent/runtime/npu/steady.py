"""Finds the commands whose constants are the same bytes in every frame, and reads those constants once.

Follows which bytes of the SRAM hold the program's own constants, command by command, through the first frame
and through the next. Why: a convolution whose weights never change is compiled once and shared by content;
one whose weights are overwritten is read from the arena each time. Both are literal; this module decides.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from contracts.npu.program import Op, Space
from edge_agent.runtime.npu.commands import Command
from edge_agent.runtime.npu.engines.base import Bytes
from edge_agent.runtime.npu.regions import Region
from edge_agent.runtime.npu.weights import Constants, Ranges, constant_ranges, read_constants

CONSTANT_SPACES = (Space.CONST, Space.QUANT)
Loader = Callable[[Command], None]


def steady_constants(sram: Bytes, commands: list[Command], prologue: int, load: Loader) -> dict[int, Constants]:
    """Return the constants of each command (by index) that sees the same ones in the first frame and the next.

    `load` executes one constant load; afterwards the SRAM holds the constants of the last frame.
    """
    known = ConstantMap()
    reader = _Reader(sram)
    seen: dict[int, Constants] = {}
    steady: dict[int, Constants] = {}
    for commands_of_pass, found in ((commands, seen), (commands[prologue:], steady)):
        for command in commands_of_pass:
            ranges = constant_ranges(command)
            if ranges and all(known.covers(offset, size) for offset, size in ranges):
                found[command.index] = reader.read(ranges)
            if is_constant_load(command) and command.target.space == Space.SRAM:
                load(command)
                reader.forget(command.target)
            known.write(command)
    return {index: constants for index, constants in steady.items() if _same(constants, seen.get(index))}


def _same(one: Constants, other: Constants | None) -> bool:
    return one is other or (other is not None and all(map(np.array_equal, one.parts, other.parts)))


class _Reader:
    """Reads constants once for all the stripes that use them from one place."""

    def __init__(self, sram: Bytes) -> None:
        self._sram = sram
        self._kept: dict[Ranges, Constants] = {}

    def read(self, ranges: Ranges) -> Constants:
        if ranges not in self._kept:
            self._kept[ranges] = read_constants(self._sram, ranges)
        return self._kept[ranges]

    def forget(self, written: Region) -> None:
        """Drop what lies in bytes that are loaded anew."""
        low, high = written.offset, written.offset + written.extent
        self._kept = {ranges: kept for ranges, kept in self._kept.items() if not _touches(ranges, low, high)}


def _touches(ranges: Ranges, low: int, high: int) -> bool:
    return any(offset < high and low < offset + size for offset, size in ranges)


class ConstantMap:
    """Half-open byte ranges of the SRAM that hold constants, kept sorted and disjoint."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []

    def write(self, command: Command) -> None:
        """Take over what `command` writes."""
        if command.target.space != Space.SRAM:
            return
        for run in command.target.runs:
            self._cut(run.offset, run.offset + run.extent)
        if is_constant_load(command):
            low = command.target.offset
            self._ranges = _joined([*self._ranges, (low, low + command.target.extent)])

    def covers(self, offset: int, size: int) -> bool:
        """Whether all `size` bytes from `offset` are constants."""
        return any(low <= offset and offset + size <= high for low, high in self._ranges)

    def _cut(self, low: int, high: int) -> None:
        if any(start < high and low < end for start, end in self._ranges):
            self._ranges = [piece for old in self._ranges for piece in _without(old, low, high)]


def is_constant_load(command: Command) -> bool:
    """Whether `command` copies constants of the program, densely, to one place."""
    plain = not command.target.ring_rows and command.source.dense and command.target.dense
    return command.op is Op.DMA and command.source.space in CONSTANT_SPACES and plain


def keeps_prologue(commands: list[Command], prologue: int) -> bool:
    """Whether the prologue only loads constants into the SRAM, and the frame never writes over them."""
    loads = commands[:prologue]
    if not all(is_constant_load(load) and load.target.space == Space.SRAM for load in loads):
        return False
    held = _joined([(load.target.offset, load.target.offset + load.target.extent) for load in loads])
    return not any(
        low < run.offset + run.extent and run.offset < high
        for command in commands[prologue:]
        if command.target.space == Space.SRAM
        for run in command.target.runs
        for low, high in held
    )


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
