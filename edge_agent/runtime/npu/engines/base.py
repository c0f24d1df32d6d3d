"""What an engine is: it makes kernels from constants, and a kernel bound to two places runs without
arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edge_agent.runtime.npu.requantize import ConvolutionTensors, PairParameters
from edge_agent.runtime.npu.windows import Window

Bytes = NDArray[np.uint8]
Step = Callable[[], object]
"""Runs one bound piece of work; the result is ignored."""


class ConvolutionKernel(Protocol):
    """A convolution with its constants; result clamped to 0..255."""

    def bind(self, source: Bytes, target: Bytes) -> Step:
        """Return a step that reads contiguous u8 [h, w, in] and writes contiguous u8 [oh, ow, out], both kept
        alive.
        """


class PairKernel(Protocol):
    """A quantised addition or multiplication with its parameters; result saturated to 0..255."""

    def bind(self, left: Bytes, right: Bytes, target: Bytes) -> Step:
        """Return a step for contiguous arrays of one size; `target` may be `left` or `right`."""


class Engine(Protocol):
    """A way to compute exactly what docs/reference/arithmetic.md says."""

    name: str

    def convolution(
        self, tensors: ConvolutionTensors, window: Window, input_zero_point: int, output_zero_point: int
    ) -> ConvolutionKernel:
        """Return the kernel for these constants."""

    def addition(self, parameters: PairParameters) -> PairKernel:
        """Return the kernel of a sum."""

    def multiplication(self, parameters: PairParameters) -> PairKernel:
        """Return the kernel of a product."""
