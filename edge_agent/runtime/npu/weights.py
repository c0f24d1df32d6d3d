"""Constants of a command in the SRAM: where they lie, and what they mean.

Layout (docs/reference/program.md): weights int8 [out, in/groups, kh, kw], each output channel `weights_row` bytes
behind the one before (0: dense); bias int32, multiplier float32 and weight zero point int8 one per output channel;
weight zero point offset 0 means symmetric weights. A TABLE has 256 bytes, or 256 for each channel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from contracts.npu.program import Op
from edge_agent.runtime.npu.commands import Command
from edge_agent.runtime.npu.engines.base import Bytes
from edge_agent.runtime.npu.errors import PlanViolation
from edge_agent.runtime.npu.requantize import ConvolutionTensors

Ranges = tuple[tuple[int, int], ...]
"""(offset, size) of each constant in the SRAM."""
CODES = 256


class HostMode(IntEnum):
    """Host functions; docs/reference/arithmetic.md, "Host operators"."""

    SOFTMAX = 0
    MATRIX_PRODUCT = 1
    DEFORMABLE = 2
    UPSAMPLING = 3
    ATTENTION = 4
    WARP = 5


@dataclass(frozen=True, eq=False)
class Constants:
    """Copies of a command's constants, in the order of its ranges."""

    parts: tuple[Bytes, ...]


def constant_ranges(command: Command) -> Ranges:
    """Return where the command's constants lie; empty when it has none."""
    if command.op is Op.TABLE:
        return ((command.weights_offset, CODES * (command.source.logical[2] if command.per_channel else 1)),)
    if command.op is Op.HOST and command.mode == HostMode.SOFTMAX:
        return ((command.weights_offset, 4 * CODES),)
    convolves = command.op is Op.CONV or (command.op is Op.HOST and command.mode == HostMode.DEFORMABLE)
    if not convolves:
        return ()
    outputs, taps, depth = _extents(command)
    ranges = [
        (command.weights_offset, (outputs - 1) * _row(command) + taps * depth),
        (command.bias_offset, 4 * outputs),
        (command.quant_offset, 4 * outputs),
    ]
    if command.weight_zero_offset:
        ranges.append((command.weight_zero_offset, outputs))
    return tuple(ranges)


def check_constants(sram: Bytes, command: Command) -> None:
    """Raise PlanViolation when a constant leaves the SRAM, or groups do not divide the channels."""
    groups = command.window.groups
    if command.op is Op.CONV and (command.source.logical[2] % groups or command.target.logical[2] % groups):
        raise PlanViolation(f"channels that {groups} groups do not divide", command.where, "compile again")
    if command.op in (Op.CONV, Op.HOST) and 0 < command.weights_row < math.prod(_extents(command)[1:]):
        raise PlanViolation(f"weights of {command.weights_row} bytes a row overlap", command.where, "compile again")
    for offset, size in constant_ranges(command):
        if offset + size > sram.size:
            end = f"constants end at byte {offset + size} of an SRAM of {sram.size}"
            raise PlanViolation(end, command.where, "compile again")


def read_constants(sram: Bytes, ranges: Ranges) -> Constants:
    """Return copies of the constants that lie in the SRAM now."""
    return Constants(tuple(sram[offset : offset + size].copy() for offset, size in ranges))


def convolution_tensors(command: Command, constants: Constants) -> ConvolutionTensors:
    """Return the constants of a convolution as tensors."""
    window = command.window
    outputs, _, depth = _extents(command)
    weights, bias, multiplier = constants.parts[:3]
    shape = (outputs, depth, window.kernel_height, window.kernel_width)
    rows = np.lib.stride_tricks.as_strided(weights, (outputs, math.prod(shape[1:])), (_row(command), 1))
    zero_point = constants.parts[3].view(np.int8) if len(constants.parts) > 3 else np.zeros(outputs, np.int8)
    return ConvolutionTensors(
        rows.copy().view(np.int8).reshape(shape),
        bias.view("<i4").astype(np.int32),
        multiplier.view("<f4").astype(np.float32),
        zero_point,
    )


def _row(command: Command) -> int:
    _, taps, depth = _extents(command)
    return command.weights_row or taps * depth


def _extents(command: Command) -> tuple[int, int, int]:
    """Return (output channels, kernel taps, input channels of a group)."""
    window = command.window
    if window.groups < 1:
        raise PlanViolation("weights for no group of channels", command.where, "compile again")
    depth = command.source.logical[2] // window.groups
    return command.target.logical[2], window.kernel_height * window.kernel_width, depth
