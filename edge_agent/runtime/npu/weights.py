"""Reads a convolution's constants from the SRAM, at the command's own offsets.

Layout (docs/reference/program.md): weights int8 [out, in/groups, kh, kw]; bias int32, multiplier float32 and
weight zero point int8 one per output channel; weight zero point offset 0 means symmetric weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edge_agent.runtime.npu.commands import Command
from edge_agent.runtime.npu.engines.base import Bytes
from edge_agent.runtime.npu.errors import PlanViolation
from edge_agent.runtime.npu.requantize import ConvolutionTensors


@dataclass(frozen=True)
class Constants:
    """Tensors that were the program's constants when they were read."""

    tensors: ConvolutionTensors

    def same_as(self, other: Constants | None) -> bool:
        """Whether both hold the same values."""
        if other is None:
            return False
        names = ("weights", "bias", "multiplier", "weight_zero_point")
        return all(np.array_equal(getattr(self.tensors, n), getattr(other.tensors, n)) for n in names)

    @staticmethod
    def ranges(command: Command) -> list[tuple[int, int]]:
        """Return (offset, size) of each constant in the SRAM."""
        outputs, taps, depth = _extents(command)
        ranges = [
            (command.weights_offset, outputs * taps * depth),
            (command.bias_offset, 4 * outputs),
            (command.quant_offset, 4 * outputs),
        ]
        if command.weight_zero_offset:
            ranges.append((command.weight_zero_offset, outputs))
        return ranges

    @staticmethod
    def check(sram: Bytes, command: Command) -> None:
        """Raise PlanViolation when a constant leaves the SRAM, or groups do not divide the channels."""
        groups = command.window.groups
        if command.source.logical[2] % groups or command.target.logical[2] % groups:
            raise PlanViolation(f"channels that {groups} groups do not divide", command.where, "compile again")
        for offset, size in Constants.ranges(command):
            if offset + size > sram.size:
                raise PlanViolation(
                    f"constants end at byte {offset + size} of an SRAM of {sram.size}",
                    command.where,
                    "compile again",
                )


def constants_of(sram: Bytes, command: Command) -> Constants:
    """Return copies of the constants that lie in the SRAM now."""
    Constants.check(sram, command)
    window = command.window
    outputs, _, depth = _extents(command)
    parts = [sram[offset : offset + size] for offset, size in Constants.ranges(command)]
    shape = (outputs, depth, window.kernel_height, window.kernel_width)
    zero_point = parts[3].view(np.int8).copy() if len(parts) > 3 else np.zeros(outputs, np.int8)
    return Constants(
        ConvolutionTensors(
            parts[0].view(np.int8).reshape(shape).copy(),
            parts[1].view("<i4").astype(np.int32),
            parts[2].view("<f4").astype(np.float32),
            zero_point,
        )
    )


def _extents(command: Command) -> tuple[int, int, int]:
    """Return (output channels, kernel taps, input channels of a group)."""
    window = command.window
    depth = command.source.logical[2] // window.groups
    return command.target.logical[2], window.kernel_height * window.kernel_width, depth
