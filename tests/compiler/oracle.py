"""ONNX Runtime on a whole model against the golden interpreter, and the passes one by one.

The session runs without graph optimisation, so that a QDQ model means what its nodes say.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.gridding.runtime import runtime_outputs
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
