"""ONNX Runtime as the engine: QLinearConv channels-last, QLinearAdd and QLinearMul, bound by pointer.

Why sessions are shared process-wide by content: hundreds of light devices run the same bundle. Why each new
kernel is checked against NumPy: a CPU or a build of ONNX Runtime that saturates or rounds otherwise must not
change a pixel; a kernel that differs is replaced by the exact one.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import astuple, dataclass
from threading import Lock
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from edge_agent.runtime.npu.engines.base import Bytes, ConvolutionKernel, PairKernel, Step
from edge_agent.runtime.npu.engines.numpy_engine import NumpyEngine, PairTable
from edge_agent.runtime.npu.engines.ort_sessions import (
    OrtConvolution,
    OrtPair,
    convolution_model,
    make_session,
    pair_model,
)
from edge_agent.runtime.npu.limits import LIMITS
from edge_agent.runtime.npu.requantize import (
    ConvolutionTensors,
    PairParameters,
    addition_table,
    multiplication_table,
)
from edge_agent.runtime.npu.windows import Window

Key = TypeVar("Key", bound=Hashable)
Kernel = TypeVar("Kernel")


class _Kept(Generic[Key, Kernel]):
    """Kernels by content, the latest used ones; safe for several threads."""

    def __init__(self) -> None:
        self._kernels: OrderedDict[Key, Kernel] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Key, make: Callable[[], Kernel]) -> Kernel:
        with self._lock:
            if key not in self._kernels:
                self._kernels[key] = make()
            self._kernels.move_to_end(key)
            while len(self._kernels) > LIMITS.cached_kernels:
                self._kernels.popitem(last=False)
            return self._kernels[key]


class OrtEngine:
    """Kernels in ONNX Runtime; `unsigned_weights` avoids what saturates on CPUs without VNNI."""

    def __init__(self, unsigned_weights: bool = False) -> None:
        self.name = "ort-u8u8" if unsigned_weights else "ort"
        self._unsigned = unsigned_weights
        self._exact = NumpyEngine()
        self._convolutions: _Kept[bytes, ConvolutionKernel] = _Kept()
        self._pairs: _Kept[tuple[str, PairParameters], PairKernel] = _Kept()

    def convolution(
        self, tensors: ConvolutionTensors, window: Window, input_zero_point: int, output_zero_point: int
    ) -> ConvolutionKernel:
        def make() -> ConvolutionKernel:
            return self._make_convolution(tensors, window, input_zero_point, output_zero_point)

        return self._convolutions.get(_content_key(tensors, window, input_zero_point, output_zero_point), make)

    def addition(self, parameters: PairParameters) -> PairKernel:
        def make() -> PairKernel:
            return _make_pair("QLinearAdd", parameters, addition_table(parameters))

        return self._pairs.get(("+", parameters), make)

    def multiplication(self, parameters: PairParameters) -> PairKernel:
        def make() -> PairKernel:
            return _make_pair("QLinearMul", parameters, multiplication_table(parameters))

        return self._pairs.get(("*", parameters), make)

    def _make_convolution(
        self, tensors: ConvolutionTensors, window: Window, input_zero_point: int, output_zero_point: int
    ) -> ConvolutionKernel:
        exact = self._exact.convolution(tensors, window, input_zero_point, output_zero_point)
        if len(np.unique(tensors.weight_zero_point)) > 1:
            return exact  # ONNX Runtime refuses zero points that differ by channel
        model = convolution_model(tensors, window, input_zero_point, output_zero_point, self._unsigned)
        fast = OrtConvolution(make_session(model))
        return fast if _agree(fast, exact, tensors, window) else exact


def _make_pair(operator: str, parameters: PairParameters, table: NDArray[np.uint8]) -> PairKernel:
    """Return ONNX Runtime's operator if it gives the table for all 65,536 pairs, else the table; always the table for
    a map of one element, where ONNX Runtime exchanges the operands of a sum.
    """
    fast = OrtPair(make_session(pair_model(operator, parameters)))
    left, right = (_with_odd_end(codes) for codes in np.indices((256, 256), np.uint8))
    result = np.empty_like(left)
    fast.bind(left, right, result)()
    exact = PairTable(table)
    return _BySize(fast, exact) if np.array_equal(result, _with_odd_end(table)) else exact


@dataclass(frozen=True)
class _BySize:
    """A kernel for maps, and one for a single element."""

    many: PairKernel
    one: PairKernel

    def bind(self, left: Bytes, right: Bytes, target: Bytes) -> Step:
        return (self.one if left.size == 1 else self.many).bind(left, right, target)


def _with_odd_end(codes: Bytes) -> Bytes:
    """Return all codes and seven more, so that the loop behind the last whole vector is tried too."""
    return np.concatenate((codes.reshape(-1), codes.reshape(-1)[1000:1007]))


def _content_key(tensors: ConvolutionTensors, window: Window, *zero_points: int) -> bytes:
    digest = hashlib.sha256(repr((astuple(window), zero_points, tensors.weights.shape)).encode())
    for part in (tensors.weights, tensors.bias, tensors.multiplier, tensors.weight_zero_point):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.digest()


def _agree(fast: ConvolutionKernel, exact: ConvolutionKernel, tensors: ConvolutionTensors, window: Window) -> bool:
    """Compare both kernels on a small image of extreme and random codes; False when the window does not fit
    it.
    """
    reach = max(window.dilation_height * window.kernel_height, window.dilation_width * window.kernel_width)
    side = reach + 2 * max(window.stride_height, window.stride_width)
    random = np.random.default_rng(0x5E1F)
    source = random.choice(np.array([0, 1, 127, 128, 254, 255], np.uint8), (side, side, _inputs(tensors, window)))
    source[: side // 2] = 255
    height, width = window.output_size(side, side)
    if height < 1 or width < 1:
        return False
    one, other = (np.empty((height, width, len(tensors.weights)), np.uint8) for _ in range(2))
    fast.bind(source, one)()
    exact.bind(source, other)()
    return np.array_equal(one, other)


def _inputs(tensors: ConvolutionTensors, window: Window) -> int:
    return int(tensors.weights.shape[1]) * window.groups
