"""ONNX Runtime sessions of one node, bound by pointer to places in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from edge_agent.runtime.npu.engines.base import Bytes, Step
from edge_agent.runtime.npu.engines.onnx_bytes import one_node_model
from edge_agent.runtime.npu.requantize import ConvolutionTensors, PairParameters
from edge_agent.runtime.npu.windows import Window

_UNSIGNED_SHIFT = 128


@dataclass(frozen=True)
class OrtConvolution:
    """One session, free in height and width."""

    session: onnxruntime.InferenceSession

    def bind(self, source: Bytes, target: Bytes) -> Step:
        shapes = {"x": (1, *source.shape), "y": (1, *target.shape)}
        return _bind(self.session, {"x": source, "y": target}, shapes)


@dataclass(frozen=True)
class OrtPair:
    """A sum or product: one session, free in size."""

    session: onnxruntime.InferenceSession

    def bind(self, left: Bytes, right: Bytes, target: Bytes) -> Step:
        places = {"a": left, "b": right, "y": target}
        return _bind(self.session, places, dict.fromkeys(places, (left.size,)))


def make_session(model: bytes) -> onnxruntime.InferenceSession:
    """Return a session of one thread."""
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
    step = _Bound(session.run_with_iobinding, binding)
    step.kept_alive = tuple(places.values())
    return step


class _Bound(partial[None]):
    """A run of a session; it keeps the memory that the binding points to."""

    kept_alive: tuple[Bytes, ...]


def convolution_model(
    tensors: ConvolutionTensors, window: Window, input_zero_point: int, output_zero_point: int, unsigned: bool
) -> bytes:
    """Return a channels-last QLinearConv; `unsigned` weights avoid what saturates without VNNI."""
    weights: NDArray[np.generic] = np.ascontiguousarray(tensors.weights)
    weight_zero: NDArray[np.generic] = tensors.weight_zero_point.astype(np.int8)
    if unsigned:
        weights, weight_zero = (
            (part.astype(np.int16) + _UNSIGNED_SHIFT).astype(np.uint8) for part in (weights, weight_zero)
        )
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


def pair_model(operator: str, parameters: PairParameters) -> bytes:
    """Return QLinearAdd or QLinearMul."""
    initialisers: dict[str, NDArray[np.generic]] = {}
    for side in "abc":
        initialisers[f"{side}s"] = np.array(getattr(parameters, f"{side}_scale"), np.float32)
        initialisers[f"{side}z"] = np.array(getattr(parameters, f"{side}_zero_point"), np.uint8)
    arguments = ["a", "as", "az", "b", "bs", "bz", "cs", "cz"]
    return one_node_model(operator, arguments, initialisers, {}, rank=1)
