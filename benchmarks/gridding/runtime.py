"""ONNX Runtime's answer to a small model, in the compiler's own terms.

The session runs without graph optimisation, so that a model means what its nodes say.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx
from onnx.reference import ReferenceEvaluator

from benchmarks.reference_nets.exact_session import exact_session
from compiler.ir import Graph

Image = npt.NDArray[np.uint8]


def runtime_outputs(model: bytes, graph: Graph, frame: Image) -> dict[str, Image]:
    """Outputs as uint8 H x W x C in the graph's own quantisation."""
    session = exact_session(model)
    entry = session.get_inputs()[0]
    names = [output.name for output in session.get_outputs()]
    results = session.run(names, {entry.name: _fed(entry.type, graph, frame)})
    values = {name: graph.values[value] for name, value in graph.outputs}
    return {
        name: _read(np.asarray(result), values[name].scale, values[name].zero_point, values[name].shape)
        for name, result in zip(names, results, strict=True)
    }


def reference_outputs(model: bytes, graph: Graph, frame: Image) -> dict[str, Image]:
    """The same from the onnx package's reference evaluator."""
    proto = onnx.load_model_from_string(model)
    values = {name: graph.values[value] for name, value in graph.outputs}
    results = ReferenceEvaluator(proto).run(None, {proto.graph.input[0].name: _fed("", graph, frame)})
    return {
        output.name: _read(np.asarray(result), value.scale, value.zero_point, value.shape)
        for output, result in zip(proto.graph.output, results, strict=True)
        for value in [values[output.name]]
    }


def _fed(kind: str, graph: Graph, frame: Image) -> npt.NDArray[np.generic]:
    image = np.ascontiguousarray(frame.transpose(2, 0, 1))[None]
    if kind == "tensor(uint8)":
        return image
    if kind == "tensor(int8)":
        return (image.astype(np.int16) - 128).astype(np.int8)
    value = graph.values[graph.input]
    return ((image.astype(np.float32) - value.zero_point) * np.float32(value.scale)).astype(np.float32)


def _read(result: npt.NDArray[np.generic], scale: float, zero_point: int, shape: tuple[int, int, int]) -> Image:
    if result.dtype == np.uint8:
        image = result
    elif result.dtype == np.int8:
        image = (result.astype(np.int16) + 128).astype(np.uint8)
    else:
        image = np.rint(result.astype(np.float64) / np.float32(scale) + zero_point).astype(np.uint8)
    height, width, channels = shape
    return np.ascontiguousarray(image.reshape(channels, height, width).transpose(1, 2, 0))
