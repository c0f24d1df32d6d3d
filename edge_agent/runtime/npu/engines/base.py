"""What an engine is: it makes kernels from constants, and a kernel bound to two places runs without
arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edge_agent.runtime.npu.requantize import AddParameters, ConvolutionTensors
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


class AdditionKernel(Protocol):
    """A quantised addition with its parameters."""

    def bind(self, left: Bytes, right: Bytes, target: Bytes) -> Step:
        """Return a step for contiguous arrays of one size; `target` may be `left` or `right`."""


class Engine(Protocol):
    """A way to compute exactly what docs/reference/arithmetic.md says."""

    name: str

    def convolution(
        self, tensors: ConvolutionTensors, window: Window, input_zero_point: int, output_zero_point: int
    ) -> ConvolutionKernel:
        """Return the kernel for these constants."""

    def addition(self, parameters: AddParameters) -> AdditionKernel:
        """Return the kernel for these parameters."""
