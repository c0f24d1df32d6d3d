"""ONNX Runtime as the engine: QLinearConv channels-last and QLinearAdd, bound by pointer to the arena.

Why sessions are shared process-wide by content: hundreds of light devices run the same bundle. Why each new
kernel is checked against NumPy: a CPU or a build of ONNX Runtime that saturates or rounds otherwise must not
change a pixel; a kernel that differs is replaced by the exact one.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from threading import Lock

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from edge_agent.runtime.npu.engines.base import AdditionKernel, Bytes, ConvolutionKernel, Step
from edge_agent.runtime.npu.engines.numpy_engine import NumpyEngine, TableAddition
from edge_agent.runtime.npu.engines.onnx_bytes import one_node_model
from edge_agent.runtime.npu.limits import LIMITS
from edge_agent.runtime.npu.requantize import AddParameters, ConvolutionTensors, addition_table
from edge_agent.runtime.npu.windows import Window

_UNSIGNED_SHIFT = 128


def _session(model: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.enable_cpu_mem_arena = False
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _bind(session: onnxruntime.InferenceSession, places: dict[str, Bytes], shapes: Mapping[str, Sequence[int]]) -> Step:
    binding = session.io_binding()
    for name, place in places.items():
        attach = binding.bind_output if name == "y" else binding.bind_input
        attach(name, "cpu", 0, np.uint8, list(shapes[name]), place.ctypes.data)

    def step(keep: dict[str, Bytes] = places) -> None:
        session.run_with_iobinding(binding)

    return step


@dataclass(frozen=True)
class OrtConvolution:
    """One session, free in height and width."""

    session: onnxruntime.InferenceSession

    def bind(self, source: Bytes, target: Bytes) -> Step:
        shapes = {"x": (1, *source.shape), "y": (1, *target.shape)}
        return _bind(self.session, {"x": source, "y": target}, shapes)


@dataclass(frozen=True)
class OrtAddition:
    """One session, free in size."""

    session: onnxruntime.InferenceSession

    def bind(self, left: Bytes, right: Bytes, target: Bytes) -> Step:
        places = {"a": left, "b": right, "y": target}
        return _bind(self.session, places, dict.fromkeys(places, (left.size,)))


class OrtEngine:
    """Kernels in ONNX Runtime; `unsigned_weights` avoids what saturates on CPUs without VNNI."""

    def __init__(self, unsigned_weights: bool = False) -> None:
        self.name = "ort-u8u8" if unsigned_weights else "ort"
        self._unsigned = unsigned_weights
        self._exact = NumpyEngine()
        self._convolutions: OrderedDict[bytes, ConvolutionKernel] = OrderedDict()
        self._additions: OrderedDict[AddParameters, AdditionKernel] = OrderedDict()
        self._lock = Lock()

    def convolution(
        self, tensors: ConvolutionTensors, window: Window, input_zero_point: int, output_zero_point: int
    ) -> ConvolutionKernel:
        key = _content_key(tensors, window, input_zero_point, output_zero_point)
        with self._lock:
            kernel = self._convolutions.get(key)
            if kernel is None:
                kernel = self._make_convolution(tensors, window, input_zero_point, output_zero_point)
                self._convolutions[key] = kernel
            self._convolutions.move_to_end(key)
            while len(self._convolutions) > LIMITS.cached_kernels:
                self._convolutions.popitem(last=False)
            return kernel

    def addition(self, parameters: AddParameters) -> AdditionKernel:
        with self._lock:
            kernel = self._additions.get(parameters)
            if kernel is None:
                kernel = self._additions[parameters] = self._make_addition(parameters)
            self._additions.move_to_end(parameters)
            while len(self._additions) > LIMITS.cached_kernels:
                self._additions.popitem(last=False)
            return kernel

    def _make_convolution(
        self, tensors: ConvolutionTensors, window: Window, input_zero_point: int, output_zero_point: int
    ) -> ConvolutionKernel:
        exact = self._exact.convolution(tensors, window, input_zero_point, output_zero_point)
        if np.any(tensors.weight_zero_point):
            return exact
        fast = OrtConvolution(_session(self._model(tensors, window, input_zero_point, output_zero_point)))
        return fast if _agree(fast, exact, tensors, window) else exact

    def _model(
        self, tensors: ConvolutionTensors, window: Window, input_zero_point: int, output_zero_point: int
    ) -> bytes:
        weights: NDArray[np.generic] = np.ascontiguousarray(tensors.weights)
        zero = np.zeros(len(weights), np.int8)
        weight_zero: NDArray[np.generic] = zero
        if self._unsigned:
            weights = (weights.astype(np.int16) + _UNSIGNED_SHIFT).astype(np.uint8)
            weight_zero = np.full(len(weights), _UNSIGNED_SHIFT, np.uint8)
        one = np.array(1.0, np.float32)
        initialisers: dict[str, NDArray[np.generic]] = {
            "xs": one, "xz": np.array(input_zero_point, np.uint8), "w": weights,
            "ws": tensors.multiplier.astype(np.float32), "wz": weight_zero,
            "ys": one, "yz": np.array(output_zero_point, np.uint8), "bias": tensors.bias.astype(np.int32),
        }  # fmt: skip
        attributes: dict[str, int | Sequence[int]] = {
            "channels_last": 1,
            "group": window.groups,
            "kernel_shape": (window.kernel_height, window.kernel_width),
            "strides": (window.stride_height, window.stride_width),
            "dilations": (window.dilation_height, window.dilation_width),
            "pads": (window.pad_top, window.pad_left, window.pad_bottom, window.pad_right),
        }
        return one_node_model("QLinearConv", ["x", *initialisers], initialisers, attributes, rank=4)

    def _make_addition(self, parameters: AddParameters) -> AdditionKernel:
        """Return ONNX Runtime's addition if it gives the table for all 65,536 pairs, else the table."""
        table = addition_table(parameters)
        fast = OrtAddition(_session(_addition_model(parameters)))
        left, right = (_with_odd_end(codes) for codes in np.indices((256, 256), np.uint8))
        result = np.empty_like(left)
        fast.bind(left, right, result)()
        return fast if np.array_equal(result, _with_odd_end(table)) else TableAddition(table)


def _with_odd_end(codes: Bytes) -> Bytes:
    """Return all codes and seven more, so that the loop behind the last whole vector is tried too."""
    return np.concatenate((codes.reshape(-1), codes.reshape(-1)[1000:1007]))


def _addition_model(parameters: AddParameters) -> bytes:
    initialisers: dict[str, NDArray[np.generic]] = {}
    for side in "abc":
        initialisers[f"{side}s"] = np.array(getattr(parameters, f"{side}_scale"), np.float32)
        initialisers[f"{side}z"] = np.array(getattr(parameters, f"{side}_zero_point"), np.uint8)
    arguments = ["a", "as", "az", "b", "bs", "bz", "cs", "cz"]
    return one_node_model("QLinearAdd", arguments, initialisers, {}, rank=1)


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
