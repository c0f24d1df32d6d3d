"""ONNX Runtime on a whole model against the golden interpreter, and the passes one by one.

The session runs without graph optimisation, so that a QDQ model means what its nodes say.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from compiler import golden
from compiler.importer import build_graph, read_source
from compiler.ir import Graph
from compiler.passes.base import apply
from compiler.passes.constant_folding import ConstantFolding
from compiler.passes.pipeline import PASSES

Image = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Difference:
    """How far outputs lie apart: the largest step and the share of bytes that differ."""

    largest: int
    share: float


def imported(model: bytes, height: int, width: int) -> Graph:
    """Before any pass."""
    return build_graph(ConstantFolding().run(read_source(model)).graph, height, width)


def after_each_pass(graph: Graph, frame: Image) -> Graph:
    """Run all passes; assert after each that no output changed."""
    expected = golden.run(graph, frame)
    for step in PASSES:
        graph = apply(step, graph).graph
        result = golden.run(graph, frame)
        assert set(result) == set(expected)
        for name, image in expected.items():
            np.testing.assert_array_equal(result[name], image, err_msg=f"{step.name} changed {name}")
    return graph


def frame_of(graph: Graph, seed: int = 3) -> Image:
    """A random frame."""
    shape = graph.values[graph.input].shape
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def against_runtime(model: bytes, graph: Graph, frame: Image) -> Difference:
    """Golden outputs against ONNX Runtime's on the same frame."""
    expected = runtime_outputs(model, graph, frame)
    result = golden.run(graph, frame)
    steps = [np.abs(result[name].astype(int) - image.astype(int)) for name, image in expected.items()]
    every = np.concatenate([step.reshape(-1) for step in steps])
    return Difference(int(every.max()), float((every > 0).mean()))


def runtime_outputs(model: bytes, graph: Graph, frame: Image) -> dict[str, Image]:
    """ONNX Runtime's outputs as uint8 H x W x C in the graph's own quantisation."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    entry = session.get_inputs()[0]
    names = [output.name for output in session.get_outputs()]
    results = session.run(names, {entry.name: _fed(entry.type, graph, frame)})
    values = {name: graph.values[value] for name, value in graph.outputs}
    return {
        name: _read(np.asarray(result), values[name].scale, values[name].zero_point, values[name].shape)
        for name, result in zip(names, results, strict=True)
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
