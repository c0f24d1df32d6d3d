"""ONNX Runtime as an oracle: the operators as they are written, on every processor.

Without graph optimisation each operator is computed by its own kernel. On x86 processors without VNNI the kernel of
unsigned activations and signed weights saturates its 16-bit sums (onnxruntime issue 16105); there, and only there, the
session takes the transformation that makes weights unsigned, which is exact and needs the extended level.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

_WHOLE = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
_LITERAL = ort.GraphOptimizationLevel.ORT_DISABLE_ALL


def exact_session(model: bytes) -> ort.InferenceSession:
    """A session of one thread whose integers are those of the model."""
    if not (saturates() and _has_integer_operators(model)):
        return literal_session(model)
    try:
        return _session(model, _WHOLE)
    except ort.capi.onnxruntime_pybind11_state.NotImplemented:
        return literal_session(model)  # signed activations: no such kernel, and no pair that saturates


def literal_session(model: bytes) -> ort.InferenceSession:
    """A session without graph optimisation; QDQ models are computed in floats."""
    return _session(model, _LITERAL)


@lru_cache(maxsize=1)
def saturates() -> bool:
    """Whether this processor loses what does not fit 16 bits."""
    model, frame, wanted = large_pairs()
    (found,) = literal_session(model).run(None, {"x": frame})
    return bool((np.asarray(found) != wanted).any())


def large_pairs() -> tuple[bytes, np.ndarray, int]:
    """A convolution whose pairs do not fit 16 bits, a frame for it, and the code of every result: 64 channels of 255
    times 127 are 2,072,640, in steps of 10,000.
    """
    weights = np.full((1, 64, 1, 1), 127, np.int8)
    constants = {
        "xs": np.float32(1), "xz": np.uint8(0), "w": weights, "ws": np.float32(1), "wz": np.int8(0),
        "ys": np.float32(10_000), "yz": np.uint8(0),
    }  # fmt: skip
    node = helper.make_node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["y"])
    graph = helper.make_graph(
        [node],
        "pairs",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [1, 64, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, [1, 1, 4, 4])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString(), np.full((1, 64, 4, 4), 255, np.uint8), 207


def _has_integer_operators(model: bytes) -> bool:
    return any(node.op_type.startswith("QLinear") for node in onnx.load_model_from_string(model).graph.node)


def _session(model: bytes, level: ort.GraphOptimizationLevel) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = level
    options.add_session_config_entry("session.x64quantprecision", "1")
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
