"""The bytes of a program that may carry a mark: INT8 weights of convolutions, found in the command stream.

Biases, zero points, tables and multipliers are left alone. Weights at the ends of the range are left alone too, so
that a step never turns the largest weight of a channel into the smallest. Both choices do not depend on the mark, so
the reader finds the same carriers again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from contracts.npu.program import Op, Program, Space
from edge_agent.runtime.npu.commands import Command, decode_stream
from edge_agent.runtime.npu.weights import constant_ranges
from edge_agent.watermark.code import Mark, Reading, read, write

MOST_LARGE = 126


def mark_program(program: Program, mark: Mark, key: bytes) -> Program:
    """Return the program with the mark in its weights; the one given is left as it is. Raises WatermarkError."""
    places = carriers(program)
    constants = program.constants.copy()
    constants[places] = write(constants[places], mark, key)
    return replace(program, constants=constants)


def read_program(program: Program, key: bytes) -> Reading:
    """Find the mark of a program. Raises WatermarkError."""
    return read(program.constants[carriers(program)], key)


def carriers(program: Program) -> NDArray[np.int64]:
    """Offsets in CONSTANTS of the weights that may carry a bit, rising."""
    found = np.zeros(len(program.constants), bool)
    for index in range(len(program.profiles)):
        for start, size in _weights(decode_stream(program.commands(index))):
            found[start : start + size] = True
    values = program.constants.view(np.int8).astype(np.int16)
    steady = (values | 1 <= MOST_LARGE) & (values & ~1 >= -MOST_LARGE)
    return np.flatnonzero(found & steady)


def _weights(commands: list[Command]) -> list[tuple[int, int]]:
    """(offset, size) in CONSTANTS of every convolution's weights, by the transfer that brought them to the SRAM."""
    brought: list[tuple[int, int, int]] = []
    found = []
    for command in commands:
        source, target = command.source, command.target
        if command.op is Op.DMA and source.space == Space.CONST and target.space == Space.SRAM:
            size = source.rows * source.cols * source.channels
            brought.append((target.offset, size, source.offset))
        elif command.op is Op.CONV:
            start, length = constant_ranges(command)[0]
            for at, size, origin in reversed(brought):
                if at <= start and start + length <= at + size:
                    found.append((origin + start - at, length))
                    break
    return found
