"""Constant folding: source graph in, source graph out."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.errors import BrokenModel
from compiler.importer import SourceGraph, build_graph, read_source
from compiler.passes.constant_folding import ConstantFolding
from tests.compiler.helpers import assert_text
from tests.support.models import QdqBuilder


def float_weights(shape: tuple[int, ...] = (4, 3, 1, 1)) -> bytes:
    """Weights as an exporter may leave them: float, reshaped, quantised in the graph."""
    b = QdqBuilder(0)
    value = b.node("Identity", [b.quantize("x", 1 / 255, 0, 3)], "same")
    flat = b.constant("flat", np.linspace(-1, 1, 12, dtype=np.float32))
    extents = b.constant("extents", np.array(shape, np.int64))
    weights = b.node("Reshape", [flat, extents], "weights")
    scale = b.constant("scale", np.full(4, 0.01, np.float32))
    zero = b.constant("zero", np.zeros(4, np.int8))
    quantized = b.node("QuantizeLinear", [weights, scale, zero], "weights_q", axis=0)
    b.node("DequantizeLinear", [quantized, scale, zero], "weights_dq", axis=0)
    b.node("Conv", [value, "weights_dq"], "conv", kernel_shape=[1, 1])
    b.quantize("conv", 0.02, 100, 4, output="y")
    return b.model({"x": [1, 3, "h", "w"]}, {"y": [1, 4, "h", "w"]})


def text(graph: SourceGraph) -> str:
    lines = [f"{', '.join(n.outputs)} = {n.operator}({', '.join(n.inputs)})" for n in graph.nodes]
    return "\n".join(lines) + "\n"


def test_constant_operators_and_identities_disappear() -> None:
    source = read_source(float_weights())
    step = ConstantFolding()
    result = step.run(source)
    assert step.ensures(result.graph) is None
    assert step.ensures(source) is not None
    changes = "".join(f"changed: {change}\n" for change in result.changes)
    body = f"---- before\n{text(source)}---- after\n{text(result.graph)}{changes}"
    assert_text("constant_folding", body)


def test_folded_weights_are_the_quantised_numbers() -> None:
    graph = build_graph(ConstantFolding().run(read_source(float_weights())).graph, 4, 4)
    expected = np.clip(np.rint(np.linspace(-1, 1, 12, dtype=np.float32) / np.float32(0.01)), -128, 127)
    np.testing.assert_array_equal(graph.operators[0].weights.ravel(), expected)  # type: ignore[union-attr]


def test_an_impossible_reshape_is_one_error_with_the_node() -> None:
    with pytest.raises(BrokenModel, match=r"weights_Reshape: Reshape of constants fails.*export again"):
        ConstantFolding().run(read_source(float_weights(shape=(5, 5))))
