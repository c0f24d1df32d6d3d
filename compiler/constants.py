"""The CONSTANTS section: weights, bias and weight zero points of each convolution, 128-byte aligned, kernel
by kernel.

Profiles share one section: constants do not depend on the input size. Invariant: a kernel's constants are one
contiguous range, so that one DMA descriptor brings them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compiler.ir import Conv
from compiler.schedule import Kernel, Schedule


@dataclass(frozen=True)
class ConvConstants:
    """Offsets in the section; ``weight_zero_point`` is None when all are zero."""

    weights: int
    bias: int
    weight_zero_point: int | None


@dataclass(frozen=True)
class Constants:
    """The section's bytes, offsets by convolution, and each kernel's range."""

    data: bytes
    convolutions: Mapping[str, ConvConstants]
    kernels: Mapping[str, tuple[int, int]]


def collect_constants(schedule: Schedule, alignment: int) -> Constants:
    """Lay out the constants of a schedule."""
    data = bytearray()
    convolutions: dict[str, ConvConstants] = {}
    kernels: dict[str, tuple[int, int]] = {}
    for kernel in schedule.kernels:
        start = len(data)
        for conv in _convolutions(kernel):
            weights = _append(data, conv.weights.tobytes(), alignment)
            bias = _append(data, conv.bias.astype("<i4").tobytes(), alignment)
            zero = _append(data, conv.weight_zero_point.tobytes(), alignment) if conv.weight_zero_point.any() else None
            convolutions[conv.name] = ConvConstants(weights, bias, zero)
        kernels[kernel.name] = (start, len(data) - start)
    return Constants(bytes(data), convolutions, kernels)


def _convolutions(kernel: Kernel) -> list[Conv]:
    return [step for step in kernel.steps if isinstance(step, Conv)]


def _append(data: bytearray, piece: bytes, alignment: int) -> int:
    offset = len(data)
    data += piece + bytes(-len(piece) % alignment)
    return offset
