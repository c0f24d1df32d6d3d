"""The exact fallback: NumPy integers. Slow, needs nothing; the other engine is checked against it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_agent.runtime.npu.engines.base import Bytes, ConvolutionKernel, PairKernel, Step
from edge_agent.runtime.npu.requantize import (
    ConvolutionTensors,
    PairParameters,
    addition_table,
    convolve,
    multiplication_table,
    requantize,
)
from edge_agent.runtime.npu.windows import Window


@dataclass(frozen=True)
class NumpyConvolution:
    """A convolution in int64."""

    tensors: ConvolutionTensors
    window: Window
    input_zero_point: int
    output_zero_point: int

    def bind(self, source: Bytes, target: Bytes) -> Step:
        def step() -> None:
            total = convolve(source, self.tensors, self.window, self.input_zero_point)
            target[...] = requantize(total, self.tensors.multiplier, self.output_zero_point)

        return step


@dataclass(frozen=True)
class PairTable:
    """An addition or multiplication as a table of all 65,536 pairs."""

    table: NDArray[np.uint8]

    def bind(self, left: Bytes, right: Bytes, target: Bytes) -> Step:
        flat_left, flat_right, flat_target = left.reshape(-1), right.reshape(-1), target.reshape(-1)
        pairs = np.empty(flat_left.size, np.dtype("<u2"))
        halves = pairs.view(np.uint8)
        low, high = halves[0::2], halves[1::2]
        table = self.table.reshape(-1)

        def step() -> None:
            np.copyto(low, flat_right)
            np.copyto(high, flat_left)
            table.take(pairs, out=flat_target, mode="clip")

        return step


class NumpyEngine:
    """Kernels in NumPy."""

    name = "numpy"

    def convolution(
        self, tensors: ConvolutionTensors, window: Window, input_zero_point: int, output_zero_point: int
    ) -> ConvolutionKernel:
        return NumpyConvolution(tensors, window, input_zero_point, output_zero_point)

    def addition(self, parameters: PairParameters) -> PairKernel:
        return PairTable(addition_table(parameters))

    def multiplication(self, parameters: PairParameters) -> PairKernel:
        return PairTable(multiplication_table(parameters))
