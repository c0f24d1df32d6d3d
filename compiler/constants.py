"""The CONSTANTS section: weights, bias, weight zero points and tables of each step, 128-byte aligned, kernel by kernel.

Profiles share one section: constants do not depend on the input size. Variants of a net (its widths) share what they
have in common: equal pieces are stored once, and a narrower convolution reads the first channels of the wider one's
weights. Invariant: with one variant a kernel's constants are one contiguous range, so that one DMA descriptor brings
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from compiler.ir import Conv, Graph, Host
from compiler.operators import constant_bytes
from compiler.schedule import Kernel, Schedule, Step

Weights = npt.NDArray[np.int8]


@dataclass(frozen=True)
class ConvConstants:
    """Offsets in the section; ``weight_zero_point`` is None when all are zero, ``weights_row`` 0 when dense."""

    weights: int
    bias: int
    weight_zero_point: int | None
    weights_row: int = 0


@dataclass(frozen=True)
class Constants:
    """The section's bytes, offsets by convolution and by other step, and each kernel's range.

    `streamable`: whether each kernel's constants are one range that may be brought alone.
    """

    data: bytes
    convolutions: Mapping[str, ConvConstants]
    kernels: Mapping[str, tuple[int, int]]
    tables: Mapping[str, int] = field(default_factory=dict)
    streamable: bool = True


def collect_constants(schedule: Schedule, alignment: int) -> Constants:
    """Lay out the constants of one schedule."""
    return collect_variants([schedule], alignment)[0]


def collect_variants(schedules: Sequence[Schedule], alignment: int) -> list[Constants]:
    """Lay out the constants of all variants in one section, widest first."""
    section = _Section(alignment)
    parts = [section.add(schedule) for schedule in schedules]
    data = bytes(section.data)
    single = len(schedules) == 1
    return [Constants(data, part.convolutions, part.kernels, part.tables, single) for part in parts]


@dataclass
class _Part:
    convolutions: dict[str, ConvConstants] = field(default_factory=dict)
    kernels: dict[str, tuple[int, int]] = field(default_factory=dict)
    tables: dict[str, int] = field(default_factory=dict)


class _Section:
    def __init__(self, alignment: int) -> None:
        self.data = bytearray()
        self._alignment = alignment
        self._pieces: dict[bytes, int] = {}
        self._weights: dict[tuple[str, int], list[tuple[Weights, int]]] = {}
        self._variants = 0

    def add(self, schedule: Schedule) -> _Part:
        part = _Part()
        for kernel in schedule.kernels:
            start = len(self.data)
            self._add_kernel(schedule.graph, kernel, part)
            part.kernels[kernel.name] = (start, len(self.data) - start)
        self._variants += 1
        return part

    def _add_kernel(self, graph: Graph, kernel: Kernel, part: _Part) -> None:
        for index, step in enumerate(kernel.steps):
            conv = _convolution(step)
            if conv is not None:
                weights, row = self._place_weights((kernel.name, index), conv.weights)
                bias = self._append(conv.bias.astype("<i4").tobytes())
                has_zero = bool(conv.weight_zero_point.any())
                zero = self._append(conv.weight_zero_point.tobytes()) if has_zero else None
                part.convolutions[conv.name] = ConvConstants(weights, bias, zero, row)
            table = constant_bytes(graph, step)
            if table:
                part.tables[step.name] = self._append(table)

    def _place_weights(self, place: tuple[str, int], weights: Weights) -> tuple[int, int]:
        """Offset and row of the weights: inside a wider variant's where they are its first channels."""
        known = self._weights.setdefault(place, [])
        outputs, inputs = weights.shape[:2]
        for wide, offset in known:
            if wide.shape[2:] == weights.shape[2:] and np.array_equal(wide[:outputs, :inputs], weights):
                row = int(np.prod(wide.shape[1:])) if inputs < wide.shape[1] else 0
                return offset, row
        known.append((weights, self._append(weights.tobytes())))
        return known[-1][1], 0

    def _append(self, piece: bytes) -> int:
        """Offset of a piece; further variants reuse equal ones."""
        if self._variants and piece in self._pieces:
            return self._pieces[piece]
        offset = len(self.data)
        self.data += piece + bytes(-len(piece) % self._alignment)
        self._pieces.setdefault(piece, offset)
        return offset


def _convolution(step: Step) -> Conv | None:
    if isinstance(step, Host):
        return step.convolution
    return step if isinstance(step, Conv) else None
