"""The second opinion: ONNX Runtime on the CPU runs the bundle's own ONNX, and its outputs become the same integers.

The device is judged against this, value by value, in the output's own quantisation (`scale`, `zero_point` of the
program's profile).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from contracts.npu.program import OutputTensor, Profile


class Oracle:
    """One ONNX model of a bundle (`model.onnx` or `quality.onnx`)."""

    def __init__(self, model: bytes | memoryview) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        # Without VNNI the fast u8 x s8 kernel saturates its 16-bit sums; this asks for the exact one.
        options.add_session_config_entry("session.x64quantprecision", "1")
        self._session = onnxruntime.InferenceSession(
            with_scalar_grids(bytes(model)), options, providers=["CPUExecutionProvider"]
        )
        self._input = self._session.get_inputs()[0].name

    def run(self, frames: NDArray[np.uint8], profile: Profile) -> Mapping[str, NDArray[np.uint8]]:
        """Outputs of u8 frames `[n, h, w, 3]` as u8 `[n, h, w, c]`, by name, one frame at a time."""
        names = [output.name for output in self._session.get_outputs()]
        rows: dict[str, list[NDArray[np.uint8]]] = {output.name: [] for output in profile.outputs}
        for frame in frames:
            feed = (frame.astype(np.float32) / np.float32(255.0)).transpose(2, 0, 1)[None]
            answers = dict(zip(names, self._session.run(None, {self._input: feed}), strict=True))
            for output in profile.outputs:
                rows[output.name].append(_integers(answers[output.name][0], output))
        return {name: np.stack(parts) for name, parts in rows.items()}


def with_scalar_grids(model: bytes) -> bytes:
    """The same model with scales and zero points of one element as scalars.

    Some exporters write them as lists of one. ONNX Runtime then keeps additions in floats, which round ties otherwise
    than its integer operators and the device do, and a tie in an early layer reaches hundreds of output values.
    """
    graph = onnx.load_from_string(model)
    grids = {
        name
        for node in graph.graph.node
        if node.op_type in ("QuantizeLinear", "DequantizeLinear")
        for name in node.input[1:]
    }
    for tensor in graph.graph.initializer:
        if tensor.name in grids and list(tensor.dims) == [1]:
            del tensor.dims[:]
    return bytes(graph.SerializeToString())


def _integers(values: NDArray[np.float32], output: OutputTensor) -> NDArray[np.uint8]:
    scaled = np.rint(values.transpose(1, 2, 0) / np.float32(output.scale)) + output.zero_point
    integers: NDArray[np.uint8] = np.clip(scaled, 0, 255).astype(np.uint8)
    return integers
