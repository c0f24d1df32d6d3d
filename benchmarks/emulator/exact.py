"""The golden interpreter fast enough for whole frames, and still exact.

Sums of products of integers are exact in float32 while no partial sum reaches 2^24, and in float64 below 2^53. The
bound of each convolution is computed from its own weights; float32 is used where it holds, tap by tap through BLAS,
float64 otherwise. Everything else (requantisation, additions, layouts) is the golden interpreter's own code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from compiler import golden
from compiler.driver import read_model
from compiler.ir import Conv

Image = npt.NDArray[np.uint8]
EXACT_FLOAT32 = 2**24
EXACT_FLOAT64 = 2**53


def golden_outputs(model: bytes, frame: Image) -> dict[str, Image]:
    """Outputs of the imported graph, no pass applied, for one uint8 [rows][cols][channels] frame."""
    graph = read_model("model", model, [(frame.shape[0], frame.shape[1])]).profiles[0].imported
    with fast_convolutions():
        return golden.run(graph, frame)


@contextmanager
def fast_convolutions() -> Iterator[None]:
    """The golden interpreter with `convolve` in place of its literal sum."""
    literal = golden.convolve
    golden.convolve = convolve
    try:
        yield
    finally:
        golden.convolve = literal


def convolve(image: Image, conv: Conv, zero_point: int) -> npt.NDArray[np.int64]:
    """Exact accumulators [rows][cols][out], bias included; stands in for `golden.convolve`."""
    weights = conv.weights.astype(np.int64) - conv.weight_zero_point.astype(np.int64)[:, None, None, None]
    dtype = _exact_type(weights, zero_point)
    top, bottom, left, right = conv.pads
    centred = image.astype(np.int16) - np.int16(zero_point)
    padded = np.pad(centred, ((top, bottom), (left, right), (0, 0))).astype(dtype)
    outputs, depth, height, width = weights.shape
    rows = (padded.shape[0] - conv.dilations[0] * (height - 1) - 1) // conv.strides[0] + 1
    cols = (padded.shape[1] - conv.dilations[1] * (width - 1) - 1) // conv.strides[1] + 1
    result = np.zeros((rows, cols, outputs), dtype)
    share = outputs // conv.groups
    for group in range(conv.groups):
        inputs = padded[:, :, group * depth : (group + 1) * depth]
        own = slice(group * share, (group + 1) * share)
        for ky in range(height):
            for kx in range(width):
                window = inputs[_steps(ky * conv.dilations[0], rows, conv.strides[0])]
                window = window[:, _steps(kx * conv.dilations[1], cols, conv.strides[1])]
                result[:, :, own] += window @ np.ascontiguousarray(weights[own, :, ky, kx].T.astype(dtype))
    return result.astype(np.int64) + conv.bias.astype(np.int64)


def _exact_type(weights: npt.NDArray[np.int64], zero_point: int) -> np.dtype[np.float32] | np.dtype[np.float64]:
    """The narrowest float in which every partial sum is an exact integer."""
    bound = int(np.abs(weights).reshape(len(weights), -1).sum(axis=1).max()) * max(zero_point, 255 - zero_point)
    assert bound < EXACT_FLOAT64
    return np.dtype(np.float32) if bound < EXACT_FLOAT32 else np.dtype(np.float64)


def _steps(first: int, count: int, stride: int) -> slice:
    return slice(first, first + (count - 1) * stride + 1, stride)
