"""The NPU's arithmetic in NumPy, written from docs/reference/arithmetic.md: the exact fallback engine.

Why apart from the compiler's golden: compile-then-run proves something only when the two sides were written
separately. Invariants: accumulation is exact (whole numbers in float64, far below 2^53, which is many times as fast
as in int64), every rounding is half to even in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_agent.runtime.npu.windows import Window

Bytes = NDArray[np.uint8]
_Floats = NDArray[np.float32] | np.float32


@dataclass(frozen=True)
class ConvolutionTensors:
    """Constants of one convolution. `weights` is int8 [out, in/groups, kh, kw]; the rest is one per output
    channel.
    """

    weights: NDArray[np.int8]
    bias: NDArray[np.int32]
    multiplier: NDArray[np.float32]
    weight_zero_point: NDArray[np.int8]


def convolve(source: Bytes, tensors: ConvolutionTensors, window: Window, input_zero_point: int) -> NDArray[np.float64]:
    """Return the exact accumulators [oh, ow, out] of a u8 image [h, w, in], padded by its zero point."""
    pads = ((window.pad_top, window.pad_bottom), (window.pad_left, window.pad_right), (0, 0))
    centred = np.pad(source.astype(np.float64) - input_zero_point, pads)
    height, width = window.output_size(source.shape[0], source.shape[1])
    groups, outputs = window.groups, tensors.weights.shape[0]
    inputs, share = source.shape[2] // groups, outputs // groups
    weights = tensors.weights.astype(np.float64) - tensors.weight_zero_point.astype(np.float64)[:, None, None, None]
    total = np.zeros((height, width, outputs))
    for row in range(window.kernel_height):
        for column in range(window.kernel_width):
            top, left = row * window.dilation_height, column * window.dilation_width
            tap = centred[
                top : top + (height - 1) * window.stride_height + 1 : window.stride_height,
                left : left + (width - 1) * window.stride_width + 1 : window.stride_width,
            ]
            for group in range(groups):
                out = slice(group * share, (group + 1) * share)
                part = tap[:, :, group * inputs : (group + 1) * inputs]
                total[:, :, out] += part @ weights[out, :, row, column].T
    total += tensors.bias
    return total


def saturated(values: NDArray[np.floating[Any]], low: int = 0, high: int = 255) -> Bytes:
    """Return whole numbers cut to low..high as codes; what is no number (of a scale that is none) becomes `low`."""
    codes: Bytes = np.fmin(np.fmax(values, low), high).astype(np.uint8)
    return codes


@np.errstate(over="ignore", invalid="ignore")  # a stream may carry any multiplier
def requantize(accumulators: NDArray[np.float64], multiplier: NDArray[np.float32], zero_point: int) -> Bytes:
    """Return rint(float32(acc) * multiplier) + zero_point, saturated to 0..255."""
    scaled = np.rint(accumulators.astype(np.float32) * multiplier)
    return saturated(scaled + np.float32(zero_point))


@dataclass(frozen=True)
class PairParameters:
    """Scales and zero points of c = a + b or c = a * b; a subtraction is an addition with `b_scale` < 0."""

    a_scale: float
    b_scale: float
    c_scale: float
    a_zero_point: int
    b_zero_point: int
    c_zero_point: int

    def exchanged(self) -> PairParameters:
        """Return the same with a and b changing places."""
        return PairParameters(
            self.b_scale, self.a_scale, self.c_scale, self.b_zero_point, self.a_zero_point, self.c_zero_point
        )


@np.errstate(over="ignore", invalid="ignore", under="ignore")
def addition_table(parameters: PairParameters) -> NDArray[np.uint8]:
    """Return u8 [256, 256]: the result for every pair (a, b); the addition's whole definition."""
    left_ratio = np.float32(parameters.a_scale) / np.float32(parameters.c_scale)
    right_ratio = np.float32(parameters.b_scale) / np.float32(parameters.c_scale)
    shift = np.float32(right_ratio * np.float32(parameters.b_zero_point))
    moved = _fma(np.float32(parameters.a_zero_point), left_ratio, shift)
    fixed = np.float32(np.float32(parameters.c_zero_point) - moved)
    codes = np.arange(256, dtype=np.float32)
    right = _fma(codes, right_ratio, fixed)
    total = _fma(codes[:, None], left_ratio, right[None, :])
    return saturated(np.rint(total))


@np.errstate(over="ignore", invalid="ignore", under="ignore")
def multiplication_table(parameters: PairParameters) -> NDArray[np.uint8]:
    """Return u8 [256, 256]: the product of every pair (a, b); the multiplication's whole definition."""
    scale = np.float32(parameters.a_scale) * np.float32(parameters.b_scale) / np.float32(parameters.c_scale)
    codes = np.arange(256, dtype=np.int64)
    products = np.multiply.outer(codes - parameters.a_zero_point, codes - parameters.b_zero_point)
    total = products.astype(np.float32) * scale + np.float32(parameters.c_zero_point)
    return saturated(np.rint(total))


def _fma(factor: _Floats, ratio: np.float32, addend: _Floats) -> NDArray[np.float32]:
    """Return f32(factor * ratio + addend) with one rounding; exact in float64 within the allowed ratios."""
    exact = np.asarray(factor, np.float64) * np.float64(ratio) + np.asarray(addend, np.float64)
    return exact.astype(np.float32)
